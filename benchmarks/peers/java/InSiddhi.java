import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Queries from in_siddhi.siddhi; an app for each thread, with its share of the vehicles. */
public final class InSiddhi {
    public static void main(String[] words) throws Exception {
        String[] pieces = Files.readString(Path.of(System.getProperty("queries"))).split("-- lines: ");
        Answering.answer(words, (events, patterns, found) -> recognise(pieces, events, patterns, found));
        System.exit(0); // its timers would keep the process
    }

    private static void recognise(String[] pieces, List<Event> events, List<String> patterns,
            Set<Answering.Detection> found) throws Exception {
        // lines: six
        StringBuilder app = new StringBuilder("@app:playback define stream Event (vehicle long, ts long, status string, "
                + "ignition bool, speed double, travelled double, satellites int, accelerating bool);\n"
                + "partition with (vehicle of Event) begin\n");
        for (String pattern : patterns) {
            for (String piece : pieces) {
                if (piece.startsWith(pattern + "\n")) {
                    app.append(piece.substring(pattern.length()));
                }
            }
        }
        app.append("end;");
        SiddhiManager manager = new SiddhiManager();
        List<Thread> threads = new ArrayList<>();
        for (List<Event> part : Answering.byThread(events)) {
            SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime("@app:name('part" + threads.size() + "') " + app);
            runtime.addCallback("Found", new StreamCallback() {
                @Override
                public void receive(io.siddhi.core.event.Event[] matches) {
                    for (var match : matches) {
                        found.add(new Answering.Detection((String) match.getData(0), (Long) match.getData(1),
                                (Long) match.getData(2)));
                    }
                }
            });
            runtime.start();
            InputHandler input = runtime.getInputHandler("Event");
            Thread thread = new Thread(() -> {
                try {
                    for (Event e : part) {
                        input.send(e.ts, new Object[] {e.vehicle, e.ts, e.status, e.ignition, e.speed, e.travelled,
                            e.satellites, e.accelerating});
                    }
                } catch (InterruptedException stopped) {
                    throw new IllegalStateException(stopped);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        manager.shutdown();
        // lines: end
    }
}
