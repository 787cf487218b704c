import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A control plane for the tests of a Java project. It needs only the `kubedra` command on the PATH. */
public final class Kubedra implements AutoCloseable {
    private final Process process;
    private final Path directory;
    private final String url;

    private Kubedra(Process process, Path directory, String url) {
        this.process = process;
        this.directory = directory;
        this.url = url;
    }

    /** Runs `kubedra serve` with further flags and returns when it is ready. */
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
            throw new IOException("kubedra ended before it was ready");
        }
        return new Kubedra(process, directory, found.group(1));
    }

    public String url() {
        return url;
    }

    /** For any client: fabric8's Config.fromKubeconfig(Files.readString(kubeconfig)), or the official client's KubeConfig.loadKubeConfig. */
    public Path kubeconfig() {
        return directory.resolve("kubeconfig");
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.getOutputStream().close();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly();
        }
        try (var files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(path -> {
                try {
                    Files.delete(path);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
        }
    }
}
