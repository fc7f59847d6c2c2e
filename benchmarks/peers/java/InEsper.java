import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.hook.exception.ExceptionHandler;
import com.espertech.esper.common.client.hook.exception.ExceptionHandlerFactory;
import com.espertech.esper.common.client.hook.exception.ExceptionHandlerFactoryContext;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Statements from in_esper.epl; a runtime for each thread, with its share of the vehicles, since one locks for all. */
public final class InEsper {
    public static void main(String[] words) throws Exception {
        String[] pieces = Files.readString(Path.of(System.getProperty("epl"))).split("// lines: ");
        Map<List<String>, List<EPCompiled>> known = new HashMap<>(); // patterns are compiled in the first pass
        Answering.answer(words, (events, patterns, found) -> {
            if (!known.containsKey(patterns)) {
                known.put(patterns, compile(pieces, patterns));
            }
            recognise(known.get(patterns), events, found);
        });
    }

    /** Without it a fault inside a statement goes to a log, and detections are missing. */
    public static final class Loud implements ExceptionHandlerFactory {
        @Override
        public ExceptionHandler getHandler(ExceptionHandlerFactoryContext context) {
            return fault -> {
                throw new IllegalStateException(fault.getThrowable());
            };
        }
    }

    // lines: six
    private static Configuration configure() {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Event", Event.class);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getRuntime().getThreading().setListenerDispatchPreserveOrder(false);
        configuration.getRuntime().getExceptionHandling().addClass(Loud.class);
        return configuration;
    }

    private static List<EPCompiled> compile(String[] pieces, List<String> patterns) throws Exception {
        List<EPCompiled> compiled = new ArrayList<>();
        for (String pattern : patterns) {
            for (String piece : pieces) {
                if (piece.startsWith(pattern + "\n")) {
                    compiled.add(EPCompilerProvider.getCompiler().compile(piece.substring(pattern.length()),
                            new CompilerArguments(configure())));
                }
            }
        }
        return compiled;
    }

    private static void recognise(List<EPCompiled> compiled, List<Event> events, Set<Answering.Detection> found)
            throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (List<Event> part : Answering.byThread(events)) {
            EPRuntime runtime = EPRuntimeProvider.getRuntime("part " + threads.size(), configure());
            runtime.initialize();
            for (EPCompiled one : compiled) {
                for (EPStatement statement : runtime.getDeploymentService().deploy(one).getStatements()) {
                    statement.addListener((matches, old, from, within) -> {
                        for (var match : matches) {
                            found.add(new Answering.Detection((String) match.get("name"),
                                    (Long) match.get("entity"), (Long) match.get("ts")));
                        }
                    });
                }
            }
            Thread thread = new Thread(() -> part.forEach(e -> runtime.getEventService().sendEventBean(e, "Event")));
            thread.setUncaughtExceptionHandler((dead, fault) -> {
                System.err.println(fault.getMessage());
                System.exit(1);
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
    // lines: end
}
