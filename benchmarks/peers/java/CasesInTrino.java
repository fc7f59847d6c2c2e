import io.trino.Session;
import io.trino.plugin.memory.MemoryPlugin;
import io.trino.spi.type.SqlDecimal;
import io.trino.testing.LocalQueryRunner;
import io.trino.testing.MaterializedResult;
import io.trino.testing.MaterializedRow;
import io.trino.testing.TestingSession;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Each case is a query over its own table `events`, in an engine of its own. */
public final class CasesInTrino {
    private static final Map<String, String> TYPES = Map.of("integer", "BIGINT", "number", "DOUBLE", "text", "VARCHAR");

    public static void main(String[] words) throws Exception {
        Cases.answer(Path.of(words[0]), CasesInTrino::ask);
        System.exit(0); // its threads would keep the process
    }

    private static Cases.Found ask(Cases.Case one) {
        Session session = TestingSession.testSessionBuilder().setCatalog("memory").setSchema("default").build();
        try (LocalQueryRunner engine = LocalQueryRunner.create(session)) {
            engine.createCatalog("memory", new MemoryPlugin().getConnectorFactories().iterator().next(), Map.of());
            engine.execute("CREATE TABLE events AS " + table(one));
            MaterializedResult result = engine.execute(one.query());
            List<List<Object>> rows = new ArrayList<>();
            for (MaterializedRow row : result) {
                rows.add(row.getFields().stream().map(v -> v instanceof SqlDecimal d ? d.toBigDecimal() : v).toList());
            }
            return new Cases.Found(result.getColumnNames(), rows);
        }
    }

    private static String table(Cases.Case one) {
        List<String> rows = new ArrayList<>();
        for (Object[] event : one.events()) {
            List<String> cells = new ArrayList<>();
            for (int i = 0; i < event.length; i++) {
                String type = TYPES.get(one.columns().get(i).type());
                cells.add(event[i] == null ? "CAST(NULL AS " + type + ")" : "CAST('" + event[i] + "' AS " + type + ")");
            }
            rows.add("(" + String.join(", ", cells) + ")");
        }
        return "SELECT * FROM (VALUES " + String.join(", ", rows) + ") AS events ("
                + String.join(", ", one.columns().stream().map(Cases.Column::name).toList()) + ")";
    }
}
