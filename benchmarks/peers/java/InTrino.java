import io.trino.Session;
import io.trino.plugin.memory.MemoryPlugin;
import io.trino.testing.LocalQueryRunner;
import io.trino.testing.MaterializedRow;
import io.trino.testing.TestingSession;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Queries from in_trino.sql; an engine for each thread, with its share of the vehicles in a table in memory. */
public final class InTrino {
    private static final int ROWS_AT_ONCE = 5_000;

    public static void main(String[] words) throws Exception {
        String[] pieces = Files.readString(Path.of(System.getProperty("queries"))).split("-- lines: ");
        List<LocalQueryRunner> engines = new ArrayList<>(); // tables are filled in the first pass
        Answering.answer(words, (events, patterns, found) -> {
            if (engines.isEmpty()) {
                inThreads(Answering.byThread(events), part -> {
                    LocalQueryRunner engine = load(part);
                    synchronized (engines) {
                        engines.add(engine);
                    }
                });
            }
            String query = query(pieces, patterns);
            inThreads(engines, engine -> recognise(engine, query, found));
        });
        System.exit(0); // its threads would keep the process
    }

    // lines: six
    private static LocalQueryRunner load(List<Event> events) {
        Session session = TestingSession.testSessionBuilder().setCatalog("memory").setSchema("default")
                .setSystemProperty("task_concurrency", "1").build();
        LocalQueryRunner engine = LocalQueryRunner.create(session);
        engine.createCatalog("memory", new MemoryPlugin().getConnectorFactories().iterator().next(),
                Map.of("memory.max-data-per-node", "1GB"));
        for (int first = 0; first < events.size(); first += ROWS_AT_ONCE) {
            List<String> rows = new ArrayList<>();
            for (Event e : events.subList(first, Math.min(first + ROWS_AT_ONCE, events.size()))) {
                rows.add(e.vehicle + "," + e.ts + "," + e.status + "," + e.ignition + ","
                        + (e.speed == null ? "" : e.speed) + "," + e.travelled + ","
                        + (e.satellites == null ? "" : e.satellites) + "," + e.accelerating);
            }
            // One text for many rows: the planner looks at each value of VALUES by itself.
            engine.execute((first == 0 ? "CREATE TABLE events AS " : "INSERT INTO events ")
                    + "SELECT CAST(f[1] AS BIGINT) AS vehicle_id, CAST(f[2] AS BIGINT) AS ts, f[3] AS status, "
                    + "CAST(f[4] AS BOOLEAN) AS ignition, TRY_CAST(f[5] AS DOUBLE) AS speed, "
                    + "CAST(f[6] AS DOUBLE) AS travelled, TRY_CAST(f[7] AS INTEGER) AS satellites, "
                    + "CAST(f[8] AS BOOLEAN) AS accelerating FROM (SELECT split(line, ',') AS f "
                    + "FROM UNNEST(split('" + String.join(";", rows) + "', ';')) AS lines (line))");
        }
        return engine;
    }

    private static String query(String[] pieces, List<String> patterns) {
        List<String> chosen = new ArrayList<>();
        for (String pattern : patterns) {
            for (String piece : pieces) {
                if (piece.startsWith(pattern + "\n")) {
                    chosen.add(piece.substring(pattern.length()));
                }
            }
        }
        return String.join("\nUNION ALL\n", chosen);
    }

    private static void recognise(LocalQueryRunner engine, String query, Set<Answering.Detection> found) {
        for (MaterializedRow row : engine.execute(query)) {
            found.add(new Answering.Detection((String) row.getField(0), (Long) row.getField(1),
                    (Long) row.getField(2)));
        }
    }
    // lines: end

    private interface Work<T> {
        void on(T part) throws Exception;
    }

    private static <T> void inThreads(List<T> parts, Work<T> work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (T part : parts) {
            Thread thread = new Thread(() -> {
                try {
                    work.on(part);
                } catch (Exception fault) {
                    System.err.println(fault.getMessage());
                    System.exit(1);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
