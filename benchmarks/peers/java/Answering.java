import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A peer's side of the measurement, as answering.py is for those in Python: loads events, recognises task by task, says
 * how long. Arguments: EVENTS.csv OUT --budget-s S --tasks NAME=PATTERN,PATTERN ...
 */
public final class Answering {
    static final int THREADS = 2;
    private static final int MAX_PASSES = 6;

    /** An event at which a pattern is detected; engines report one for each match, so that a set is needed. */
    public record Detection(String pattern, long entity, long ts) {
    }

    public interface Peer {
        /** Adds the detections of these patterns; a pass begins with nothing remembered. */
        void recognise(List<Event> events, List<String> patterns, Set<Detection> found) throws Exception;
    }

    public static void answer(String[] words, Peer peer) throws Exception {
        List<Event> events = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(Path.of(words[0]))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                events.add(Event.parse(line));
            }
        }
        Path out = Path.of(words[1]);
        double budgetS = Double.parseDouble(words[3]);
        Map<String, String> report = new TreeMap<>();
        for (String task : Arrays.copyOfRange(words, 5, words.length)) {
            String name = task.substring(0, task.indexOf('='));
            List<String> patterns = Arrays.asList(task.substring(name.length() + 1).split(","));
            List<Double> seconds = new ArrayList<>();
            List<Double> processorS = new ArrayList<>();
            Set<Detection> found = ConcurrentHashMap.newKeySet();
            double spent = 0;
            int least = budgetS > 0 ? 2 : 1; // the first pass warms up
            while (seconds.size() < least || (spent < budgetS && seconds.size() < MAX_PASSES)) {
                found.clear();
                long began = System.nanoTime();
                long used = processorNs();
                peer.recognise(events, patterns, found);
                seconds.add((System.nanoTime() - began) / 1e9);
                processorS.add((processorNs() - used) / 1e9);
                spent += seconds.size() > 1 ? seconds.get(seconds.size() - 1) : 0;
            }
            report.put(name, "{\"seconds\": " + seconds.subList(least - 1, seconds.size()) + ", \"processor_s\": "
                    + processorS.subList(least - 1, seconds.size()) + "}");
            try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(out.resolve(name + ".csv")))) {
                found.forEach(d -> writer.println(d.pattern() + "," + d.entity() + "," + d.ts()));
            }
        }
        StringBuilder text = new StringBuilder("{\"versions\": {}");
        report.forEach((name, value) -> text.append(", \"").append(name).append("\": ").append(value));
        Files.writeString(out.resolve("report.json"), text.append("}").toString());
    }

    /** Each event goes to one of as many threads as there may be, by its vehicle. */
    static List<List<Event>> byThread(List<Event> events) {
        List<List<Event>> parts = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            parts.add(new ArrayList<>());
        }
        events.forEach(event -> parts.get((int) (event.vehicle % THREADS)).add(event));
        return parts;
    }

    private static long processorNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
