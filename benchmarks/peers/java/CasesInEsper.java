import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Each case is a statement over events of the type `Event`, in a runtime of its own whose clock is that of the events. */
public final class CasesInEsper {
    private static final int TS = 2;
    private static final Map<String, Class<?>> TYPES = Map.of("integer", Long.class, "number", Double.class, "text",
            String.class);

    public static void main(String[] words) throws Exception {
        Cases.answer(Path.of(words[0]), CasesInEsper::ask);
    }

    private static Cases.Found ask(Cases.Case one) throws Exception {
        Map<String, Object> type = new LinkedHashMap<>();
        one.columns().forEach(column -> type.put(column.name(), TYPES.get(column.type())));
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Event", type);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getRuntime().getExceptionHandling().addClass(InEsper.Loud.class);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(one.query(),
                new CompilerArguments(configuration));
        EPRuntime runtime = EPRuntimeProvider.getRuntime(one.name(), configuration);
        runtime.initialize();
        runtime.getEventService().advanceTime(0);
        EPStatement[] statements = runtime.getDeploymentService().deploy(compiled).getStatements();
        EPStatement statement = statements[statements.length - 1]; // a context may be made before it
        List<String> names = Arrays.asList(statement.getEventType().getPropertyNames());
        List<List<Object>> rows = new ArrayList<>();
        statement.addListener((matches, old, from, within) -> {
            for (var match : matches) {
                List<Object> row = new ArrayList<>();
                names.forEach(name -> row.add(match.get(name)));
                rows.add(row);
            }
        });
        for (Object[] event : one.events()) {
            Map<String, Object> values = new HashMap<>();
            for (int i = 0; i < event.length; i++) {
                values.put(one.columns().get(i).name(), event[i]);
            }
            runtime.getEventService().advanceTime((Long) event[TS]);
            runtime.getEventService().sendEventMap(values, "Event");
        }
        runtime.destroy();
        return new Cases.Found(names, rows);
    }
}
