import dev.kubedra.Kubedra;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;

/** A test without a test framework: `javac -cp ../../clients/java/src/main/java -d out OperatorTest.java && java -cp out OperatorTest`. */
public final class OperatorTest {
    public static void main(String[] arguments) throws Exception {
        try (Kubedra kubedra = Kubedra.start("--nodes=1")) {
            // Without TLS this client would request an upgrade to HTTP/2, and the body of that request would be lost.
            HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
            URI maps = URI.create(kubedra.url() + "/api/v1/namespaces/default/configmaps");
            String body = "{\"metadata\": {\"name\": \"from-java\"}}";
            HttpRequest create = HttpRequest.newBuilder(maps).header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body)).build();
            int status = client.send(create, HttpResponse.BodyHandlers.ofString()).statusCode();
            if (status != 201 || !Files.readString(kubedra.kubeconfig()).contains(kubedra.url())) {
                throw new AssertionError("status " + status);
            }
            System.out.println("ok");
        }
    }
}
