package dev.kubedra;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A Kubernetes control plane for the tests of a Java project. It needs only the command {@code kubedra} on the PATH
 * ({@code pip install kubedra}) and no libraries.
 *
 * <pre>{@code
 * try (Kubedra kubedra = Kubedra.start("--nodes=2")) {
 *     Config config = Config.fromKubeconfig(Files.readString(kubedra.kubeconfig()));
 * }
 * }</pre>
 *
 * <p>With JUnit, start it in {@code @BeforeAll}, reset it in {@code @BeforeEach} and close it in {@code @AfterAll}.
 */
public final class Kubedra implements AutoCloseable {
    private final Process process;
    private final Path directory;
    private final String url;

    private Kubedra(Process process, Path directory, String url) {
        this.process = process;
        this.directory = directory;
        this.url = url;
    }

    /**
     * Runs {@code kubedra serve} on a free port and returns when all components are ready. Further flags are those of
     * {@code kubedra serve}, such as {@code --nodes=2} or {@code --emulated-version=1.35}.
     *
     * @throws IOException if the command is missing, or ended before it was ready; its reason is on standard error
     */
    public static Kubedra start(String... flags) throws IOException {
        Path directory = Files.createTempDirectory("kubedra-");
        List<String> command = new ArrayList<>(List.of(
            "kubedra", "serve", "--port=0", "--announce", "--attached", "--storage=memory", "--controllers=*", "--data-dir=" + directory));
        command.addAll(List.of(flags));
        // The server ends when its standard input is closed, also when the tests are killed.
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader output = process.inputReader();
        String line = output.readLine();
        Matcher found = Pattern.compile("\"url\": *\"([^\"]+)\"").matcher(line == null ? "" : line);
        if (!found.find()) {
            process.destroy();
            delete(directory);
            throw new IOException("kubedra ended before it was ready");
        }
        return new Kubedra(process, directory, found.group(1));
    }

    /** The address of the API server. */
    public String url() {
        return url;
    }

    /** A kubeconfig for any client: fabric8's Config.fromKubeconfig(…), or the official client's KubeConfig.loadKubeConfig. */
    public Path kubeconfig() {
        return directory.resolve("kubeconfig");
    }

    /** Deletes everything except the built-in objects and the nodes of {@code --nodes}, in milliseconds. */
    public void reset() throws IOException, InterruptedException {
        // Over plain HTTP, HTTP/2 would request an upgrade, and the body of a request would be lost.
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest reset = HttpRequest.newBuilder(URI.create(url + "/-/reset")).POST(HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> response = client.send(reset, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new IOException("reset: " + response.statusCode() + ": " + response.body());
        }
    }

    /** Ends the control plane and removes its data. */
    @Override
    public void close() throws IOException {
        process.getOutputStream().close();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        delete(directory);
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
