package dev.kubedra;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;

/** Tests without a framework. Maven runs them as they are; so does `java KubedraTest`. */
public final class KubedraTest {
    // Without TLS, HTTP/2 would request an upgrade, and the body of that request would be lost.
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public void testAResetDeletesWhatATestCreated() throws Exception {
        try (Kubedra kubedra = Kubedra.start()) {
            URI maps = URI.create(kubedra.url() + "/api/v1/namespaces/default/configmaps");
            HttpRequest create = HttpRequest.newBuilder(maps).header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"metadata\": {\"name\": \"one\"}}")).build();
            check(client.send(create, HttpResponse.BodyHandlers.ofString()).statusCode() == 201);
            kubedra.reset();
            HttpRequest read = HttpRequest.newBuilder(URI.create(maps + "/one")).build();
            check(client.send(read, HttpResponse.BodyHandlers.ofString()).statusCode() == 404);
            check(Files.readString(kubedra.kubeconfig()).contains(kubedra.url()));
        }
    }

    public void testAFailedStartIsAnException() throws Exception {
        try {
            Kubedra.start("--storage=nowhere").close();
        } catch (IOException error) {
            check(error.getMessage().contains("before it was ready"));
            return;
        }
        check(false);
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new AssertionError();
        }
    }

    public static void main(String[] arguments) throws Exception {
        KubedraTest tests = new KubedraTest();
        tests.testAResetDeletesWhatATestCreated();
        tests.testAFailedStartIsAnException();
        System.out.println("ok");
    }
}
