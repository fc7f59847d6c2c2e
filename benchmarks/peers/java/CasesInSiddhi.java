import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Each case is a query from `Event` into `Found`, in an app of its own whose clock is that of the events. */
public final class CasesInSiddhi {
    private static final int TS = 2;
    private static final Map<String, String> TYPES = Map.of("integer", "long", "number", "double", "text", "string");

    public static void main(String[] words) throws Exception {
        Cases.answer(Path.of(words[0]), CasesInSiddhi::ask);
        System.exit(0); // its timers would keep the process
    }

    private static Cases.Found ask(Cases.Case one) throws Exception {
        List<String> columns = one.columns().stream().map(c -> c.name() + " " + TYPES.get(c.type())).toList();
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(
                "@app:playback define stream Event (" + String.join(", ", columns) + ");\n" + one.query());
        List<String> names = Arrays.asList(
                runtime.getStreamDefinitionMap().get("Found").getAttributeNameArray());
        List<List<Object>> rows = new ArrayList<>();
        runtime.addCallback("Found", new StreamCallback() {
            @Override
            public void receive(io.siddhi.core.event.Event[] matches) {
                for (var match : matches) {
                    rows.add(Arrays.asList(match.getData()));
                }
            }
        });
        runtime.start();
        for (Object[] event : one.events()) {
            runtime.getInputHandler("Event").send((Long) event[TS], event);
        }
        runtime.shutdown();
        manager.shutdown();
        return new Cases.Found(names, rows);
    }
}
