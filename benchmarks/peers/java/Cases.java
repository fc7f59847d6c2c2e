import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Cases of row patterns, as row_patterns/cases.py writes them: a folder each, with a line for each column (`columns`: name
 * and type), for each event (`events`: words between commas, nothing for what is missing) and the `query`. What an engine
 * finds goes to `found`: the names of its columns, then a line for each row; what it says instead goes to `fault`.
 */
public final class Cases {
    public record Column(String name, String type) {
        Object value(String word) {
            if (word.isEmpty()) {
                return null;
            }
            return switch (type) {
                case "integer" -> (Object) Long.valueOf(word);
                case "number" -> Double.valueOf(word);
                default -> word;
            };
        }
    }

    /** The first three columns of events are the entity, the number of the event in its word, and milliseconds. */
    public record Case(String name, List<Column> columns, List<Object[]> events, String query) {
    }

    public record Found(List<String> names, List<List<Object>> rows) {
    }

    public interface Peer {
        Found ask(Case one) throws Exception;
    }

    public static void answer(Path folder, Peer peer) throws Exception {
        List<Path> places;
        try (Stream<Path> all = Files.list(folder)) {
            places = all.sorted().toList();
        }
        for (Path place : places) {
            try {
                Found found = peer.ask(read(place));
                try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(place.resolve("found")))) {
                    writer.println(String.join(",", found.names()));
                    for (List<Object> row : found.rows()) {
                        writer.println(String.join(",", row.stream().map(v -> v == null ? "" : v.toString()).toList()));
                    }
                }
            } catch (Exception | LinkageError fault) {
                Files.writeString(place.resolve("fault"), String.valueOf(fault.getMessage()));
            }
        }
    }

    private static Case read(Path place) throws Exception {
        List<Column> columns = new ArrayList<>();
        for (String line : Files.readAllLines(place.resolve("columns"))) {
            columns.add(new Column(line.substring(0, line.indexOf(' ')), line.substring(line.indexOf(' ') + 1)));
        }
        List<Object[]> events = new ArrayList<>();
        for (String line : Files.readAllLines(place.resolve("events"))) {
            String[] words = line.split(",", -1);
            Object[] event = new Object[words.length];
            for (int i = 0; i < words.length; i++) {
                event[i] = columns.get(i).value(words[i]);
            }
            events.add(event);
        }
        return new Case(place.getFileName().toString(), columns, events, Files.readString(place.resolve("query")));
    }
}
