import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.TwoInputTransformation;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.InstantiationUtil;

/**
 * Reads cases (tables, a query, an operator of its plan, runs of steps) and writes the plan, the node of that operator, and what the operator emits at each step.
 * A step is a row of an input, a time of the clock (of timers and of times to live), a watermark of all inputs, or a restore from a snapshot.
 */
public class RecordOperators {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        List<Object> all = new ArrayList<>();
        for (JsonNode one : MAPPER.readTree(new File(arguments[0]))) {
            Map<String, Object> found = new LinkedHashMap<>();
            try {
                recorded(one, found);
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                found.put("failed", cause.toString());
                System.err.println(one.get("name").asText() + ": " + cause);
            }
            all.add(found);
        }
        MAPPER.writeValue(new File(arguments[1]), all);
    }

    private static void recorded(JsonNode one, Map<String, Object> found) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("table.plan.compile.catalog-objects", "ALL");
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("table.optimizer.multiple-input-enabled", "false");
        one.get("options").fields().forEachRemaining(e -> configuration.setString(e.getKey(), e.getValue().asText()));
        TableEnvironment environment =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        for (JsonNode ddl : one.get("tables")) {
            environment.executeSql(ddl.asText());
        }
        String query = one.get("query").asText();
        String plan =
                query.startsWith("INSERT")
                        ? environment.compilePlanSql(query).asJsonString()
                        : environment
                                .sqlQuery(query)
                                .insertInto(TableDescriptor.forConnector("print").build())
                                .compilePlan()
                                .asJsonString();
        found.put("plan", MAPPER.readTree(plan));
        Planner planner = ((TableEnvironmentImpl) environment).getPlanner();
        List<Transformation<?>> roots =
                planner.translatePlan(planner.loadPlan(PlanReference.fromJsonString(plan)));
        Transformation<?> chosen = chosen(roots, one.get("operator").asText());
        found.put("uid", chosen.getUid());
        List<Object> changes = new ArrayList<>();
        for (JsonNode steps : one.get("runs")) {
            changes.add(new Driven(chosen, one.get("backend").asText()).all(steps));
        }
        found.put("changes", changes);
    }

    private static Transformation<?> chosen(List<Transformation<?>> roots, String operator) {
        List<String> seen = new ArrayList<>();
        Transformation<?> found = null;
        for (Transformation<?> root : roots) {
            for (Transformation<?> one : root.getTransitivePredecessors()) {
                boolean isKeyed =
                        one instanceof OneInputTransformation
                                        && ((OneInputTransformation<?, ?>) one).getStateKeySelector() != null
                                || one instanceof TwoInputTransformation
                                        && ((TwoInputTransformation<?, ?, ?>) one).getStateKeySelector1() != null;
                if (isKeyed) {
                    seen.add(one.getUid());
                }
                if (isKeyed && String.valueOf(one.getUid()).contains(operator)) {
                    found = one;
                }
            }
        }
        if (found == null) {
            throw new IllegalStateException("no operator " + operator + " among " + seen);
        }
        return found;
    }

    /** An operator in Flink's harness. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static class Driven {
        private final Transformation chosen;
        private final String backend;
        private final List<RowType> types = new ArrayList<>();
        private final RowType emitted;
        private AbstractStreamOperatorTestHarness harness;
        private long now;

        Driven(Transformation chosen, String backend) {
            this.chosen = chosen;
            this.backend = backend;
            for (Object input : chosen.getInputs()) {
                types.add(((InternalTypeInfo<RowData>) ((Transformation) input).getOutputType()).toRowType());
            }
            emitted = ((InternalTypeInfo<RowData>) chosen.getOutputType()).toRowType();
        }

        List<Object> all(JsonNode steps) throws Exception {
            List<Object> found = new ArrayList<>();
            start(null);
            for (JsonNode step : steps) {
                switch (step.get(0).asText()) {
                    case "clock":
                        now = step.get(1).asLong();
                        harness.setStateTtlProcessingTime(now);
                        harness.setProcessingTime(now);
                        break;
                    case "watermark":
                        watermark(step.get(1).asLong());
                        break;
                    case "restore":
                        harness.prepareSnapshotPreBarrier(1);
                        OperatorSubtaskState state = harness.snapshot(1, 1);
                        harness.close();
                        start(state);
                        break;
                    default:
                        int input = step.get(1).asInt();
                        StreamRecord record =
                                new StreamRecord(row(step.get(3), types.get(input), (byte) step.get(2).asInt()));
                        int time = types.get(input).getFieldNames().indexOf("ts");
                        if (time >= 0) {
                            record.setTimestamp(step.get(3).get(time).asLong()); // as in front of MATCH_RECOGNIZE
                        }
                        if (harness instanceof KeyedOneInputStreamOperatorTestHarness) {
                            ((KeyedOneInputStreamOperatorTestHarness) harness).processElement(record);
                        } else if (input == 0) {
                            ((KeyedTwoInputStreamOperatorTestHarness) harness).processElement1(record);
                        } else {
                            ((KeyedTwoInputStreamOperatorTestHarness) harness).processElement2(record);
                        }
                }
                found.add(taken());
            }
            harness.close();
            return found;
        }

        private void start(OperatorSubtaskState state) throws Exception {
            if (chosen instanceof OneInputTransformation) {
                OneInputTransformation one = (OneInputTransformation) chosen;
                harness =
                        new KeyedOneInputStreamOperatorTestHarness(
                                (StreamOperatorFactory) InstantiationUtil.clone(one.getOperatorFactory()),
                                one.getStateKeySelector(),
                                one.getStateKeyType());
            } else {
                TwoInputTransformation two = (TwoInputTransformation) chosen;
                harness =
                        new KeyedTwoInputStreamOperatorTestHarness(
                                (TwoInputStreamOperator) InstantiationUtil.clone(two.getOperator()),
                                (KeySelector) two.getStateKeySelector1(),
                                (KeySelector) two.getStateKeySelector2(),
                                (TypeInformation) two.getStateKeyType());
            }
            if (backend.equals("rocksdb")) {
                harness.setStateBackend(new EmbeddedRocksDBStateBackend());
            }
            harness.setup(new RowDataSerializer(emitted));
            harness.setStateTtlProcessingTime(now);
            harness.setProcessingTime(now);
            if (state != null) {
                harness.initializeState(state);
            }
            harness.open();
        }

        private void watermark(long ms) throws Exception {
            if (harness instanceof KeyedOneInputStreamOperatorTestHarness) {
                ((KeyedOneInputStreamOperatorTestHarness) harness).processWatermark(new Watermark(ms));
            } else {
                ((KeyedTwoInputStreamOperatorTestHarness) harness).processWatermark1(new Watermark(ms));
                ((KeyedTwoInputStreamOperatorTestHarness) harness).processWatermark2(new Watermark(ms));
            }
        }

        private List<Object> taken() {
            List<Object> found = new ArrayList<>();
            Queue<Object> output = harness.getOutput();
            for (Object one : output) {
                if (one instanceof StreamRecord) {
                    RowData row = (RowData) ((StreamRecord) one).getValue();
                    List<Object> values = new ArrayList<>();
                    for (int at = 0; at < emitted.getFieldCount(); at++) {
                        values.add(read(row, at, emitted.getTypeAt(at)));
                    }
                    found.add(List.of((int) row.getRowKind().toByteValue(), values));
                }
            }
            output.clear();
            return found;
        }
    }

    private static RowData row(JsonNode values, RowType type, byte kind) {
        if (values.size() != type.getFieldCount()) {
            throw new IllegalStateException(values + " are not of " + type);
        }
        GenericRowData made = new GenericRowData(values.size());
        for (int at = 0; at < values.size(); at++) {
            made.setField(at, value(values.get(at), type.getTypeAt(at)));
        }
        RowData binary = new RowDataSerializer(type).toBinaryRow(made).copy();
        binary.setRowKind(RowKind.fromByteValue(kind));
        return binary;
    }

    private static Object value(JsonNode value, LogicalType type) {
        if (value.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case INTEGER:
                return value.asInt();
            case BIGINT:
                return value.asLong();
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return TimestampData.fromEpochMillis(value.asLong());
            default:
                return StringData.fromString(value.asText());
        }
    }

    private static Object read(RowData row, int at, LogicalType type) {
        if (row.isNullAt(at)) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case INTEGER:
                return row.getInt(at);
            case BIGINT:
                return row.getLong(at);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return row.getTimestamp(at, 3).getMillisecond();
            default:
                return row.getString(at).toString();
        }
    }
}
