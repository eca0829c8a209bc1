import com.google.protobuf.Descriptors.Descriptor;
import java.io.File;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.formats.protobuf.PbFormatConfig;
import org.apache.flink.formats.protobuf.deserialize.PbRowDataDeserializationSchema;
import org.apache.flink.formats.protobuf.serialize.PbRowDataSerializationSchema;
import org.apache.flink.formats.protobuf.util.PbToRowTypeUtil;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;

/** Reads cases (a message, options, bytes, rows) and writes them again with the rows and the bytes that Flink's format makes of them. */
public class RecordProtobuf {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        JsonNode cases = mapper.readTree(new File(arguments[0]));
        for (JsonNode one : cases) {
            Descriptor descriptor = (Descriptor) Class.forName(one.get("class").asText()).getMethod("getDescriptor").invoke(null);
            RowType type = PbToRowTypeUtil.generateRowType(descriptor, one.get("enum_as_int").asBoolean());
            PbFormatConfig config =
                    new PbFormatConfig(
                            one.get("class").asText(), false, one.get("defaults").asBoolean(), one.get("null_text").asText());
            List<Object> read = new ArrayList<>();
            for (JsonNode bytes : one.get("given")) {
                read.add(read(type, config, HexFormat.of().parseHex(bytes.asText())));
            }
            List<Object> written = new ArrayList<>();
            for (JsonNode row : one.get("rows")) {
                written.add(write(type, config, row));
            }
            ((ObjectNode) one).set("read", mapper.valueToTree(read));
            ((ObjectNode) one).set("written", mapper.valueToTree(written));
        }
        mapper.writeValue(new File(arguments[1]), cases);
    }

    private static Object read(RowType type, PbFormatConfig config, byte[] bytes) {
        try {
            PbRowDataDeserializationSchema schema = new PbRowDataDeserializationSchema(type, InternalTypeInfo.of(type), config);
            schema.open(null);
            return told(type, schema.deserialize(bytes));
        } catch (Throwable error) {
            return "error: " + error.getClass().getSimpleName();
        }
    }

    private static String write(RowType type, PbFormatConfig config, JsonNode row) {
        try {
            PbRowDataSerializationSchema schema = new PbRowDataSerializationSchema(type, config);
            schema.open(null);
            return HexFormat.of().formatHex(schema.serialize((RowData) value(type, row)));
        } catch (Throwable error) {
            return "error: " + error.getClass().getSimpleName();
        }
    }

    private static Object told(LogicalType type, Object value) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case ROW:
                List<Object> fields = new ArrayList<>();
                for (int at = 0; at < type.getChildren().size(); at++) {
                    LogicalType field = type.getChildren().get(at);
                    fields.add(told(field, RowData.createFieldGetter(field, at).getFieldOrNull((RowData) value)));
                }
                return fields;
            case ARRAY:
                return elements(((ArrayType) type).getElementType(), (ArrayData) value);
            case MAP:
                List<Object> keys = elements(((MapType) type).getKeyType(), ((MapData) value).keyArray());
                List<Object> values = elements(((MapType) type).getValueType(), ((MapData) value).valueArray());
                List<Object> pairs = new ArrayList<>();
                for (int at = 0; at < keys.size(); at++) {
                    List<Object> pair = new ArrayList<>();
                    pair.add(keys.get(at));
                    pair.add(values.get(at));
                    pairs.add(pair);
                }
                return pairs;
            case VARBINARY:
                return HexFormat.of().formatHex((byte[]) value);
            case BOOLEAN:
                return value;
            default:
                return value.toString();
        }
    }

    private static List<Object> elements(LogicalType type, ArrayData array) {
        List<Object> found = new ArrayList<>();
        for (int at = 0; at < array.size(); at++) {
            found.add(told(type, ArrayData.createElementGetter(type).getElementOrNull(array, at)));
        }
        return found;
    }

    private static Object value(LogicalType type, JsonNode told) {
        if (told == null || told.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case ROW:
                GenericRowData row = new GenericRowData(type.getChildren().size());
                for (int at = 0; at < type.getChildren().size(); at++) {
                    row.setField(at, value(type.getChildren().get(at), told.get(at)));
                }
                return row;
            case ARRAY:
                List<Object> found = new ArrayList<>();
                told.forEach(one -> found.add(value(((ArrayType) type).getElementType(), one)));
                return new GenericArrayData(found.toArray());
            case MAP:
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode pair : told) {
                    map.put(value(((MapType) type).getKeyType(), pair.get(0)), value(((MapType) type).getValueType(), pair.get(1)));
                }
                return new GenericMapData(map);
            case VARBINARY:
                return HexFormat.of().parseHex(told.asText());
            case BOOLEAN:
                return told.asBoolean();
            case INTEGER:
                return Integer.parseInt(told.asText());
            case BIGINT:
                return Long.parseLong(told.asText());
            case FLOAT:
                return Float.parseFloat(told.asText());
            case DOUBLE:
                return Double.parseDouble(told.asText());
            default:
                return StringData.fromString(told.asText());
        }
    }
}
