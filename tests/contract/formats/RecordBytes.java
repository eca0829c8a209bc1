import java.io.File;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.formats.avro.AvroRowSerializationSchema;
import org.apache.flink.formats.csv.CsvRowSerializationSchema;
import org.apache.flink.formats.json.JsonRowSerializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.types.Row;

/** Reads cases (a format, a type, rows) and writes them again with the bytes that Flink's serializers make of each row, or the error. */
public class RecordBytes {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        JsonNode cases = mapper.readTree(new File(arguments[0]));
        for (JsonNode one : cases) {
            List<String> written = new ArrayList<>();
            for (JsonNode row : one.get("rows")) {
                written.add(write(one, row));
            }
            ((ObjectNode) one).set("bytes", mapper.valueToTree(written));
        }
        mapper.writeValue(new File(arguments[1]), cases);
    }

    private static String write(JsonNode one, JsonNode row) {
        try {
            SerializationSchema<Row> schema = schema(one);
            schema.open(null);
            return HexFormat.of().formatHex(schema.serialize((Row) value(one.get("type"), row)));
        } catch (Throwable error) {
            return "error: " + error.getClass().getSimpleName();
        }
    }

    @SuppressWarnings("unchecked")
    private static SerializationSchema<Row> schema(JsonNode one) {
        TypeInformation<Row> type = (TypeInformation<Row>) type(one.get(one.has("written") ? "written" : "type"));
        switch (one.get("format").asText()) {
            case "json":
                return JsonRowSerializationSchema.builder().withTypeInfo(type).build();
            case "csv":
                return new CsvRowSerializationSchema.Builder(type).build();
            default:
                return new AvroRowSerializationSchema(one.get("schema").toString());
        }
    }

    private static TypeInformation<?> type(JsonNode told) {
        if (told.isTextual()) {
            return basic(told.asText());
        }
        switch (told.get(0).asText()) {
            case "LIST":
                return Types.LIST(type(told.get(1)));
            case "BASIC_ARRAY":
            case "OBJECT_ARRAY":
                return Types.OBJECT_ARRAY(type(told.get(1)));
            case "MAP":
                return Types.MAP(type(told.get(1)), type(told.get(2)));
            default:
                TypeInformation<?>[] types = new TypeInformation<?>[told.get(2).size()];
                String[] names = new String[types.length];
                for (int i = 0; i < types.length; i++) {
                    types[i] = type(told.get(2).get(i));
                    names[i] = told.get(1).isNull() ? null : told.get(1).get(i).asText();
                }
                return told.get(1).isNull() ? Types.ROW(types) : Types.ROW_NAMED(names, types);
        }
    }

    private static TypeInformation<?> basic(String name) {
        switch (name) {
            case "STRING": return Types.STRING;
            case "BOOLEAN": return Types.BOOLEAN;
            case "BYTE": return Types.BYTE;
            case "SHORT": return Types.SHORT;
            case "INT": return Types.INT;
            case "LONG": return Types.LONG;
            case "FLOAT": return Types.FLOAT;
            case "DOUBLE": return Types.DOUBLE;
            case "BIG_INT": return Types.BIG_INT;
            case "BIG_DEC": return Types.BIG_DEC;
            case "SQL_DATE": return Types.SQL_DATE;
            case "SQL_TIME": return Types.SQL_TIME;
            case "SQL_TIMESTAMP": return Types.SQL_TIMESTAMP;
            case "INSTANT": return Types.INSTANT;
            default: return Types.PRIMITIVE_ARRAY(Types.BYTE);
        }
    }

    private static Object value(JsonNode told, JsonNode text) {
        if (text.isNull()) {
            return null;
        }
        if (told.isTextual()) {
            return basicValue(told.asText(), text.asText());
        }
        switch (told.get(0).asText()) {
            case "LIST":
                return elements(told, text);
            case "BASIC_ARRAY":
            case "OBJECT_ARRAY":
                List<Object> found = elements(told, text);
                Class<?> element = type(told.get(1)).getTypeClass();
                return found.toArray((Object[]) java.lang.reflect.Array.newInstance(element, 0));
            case "MAP":
                Map<Object, Object> map = new LinkedHashMap<>();
                text.forEach(pair -> map.put(value(told.get(1), pair.get(0)), value(told.get(2), pair.get(1))));
                return map;
            default:
                Row row = new Row(text.size());
                for (int i = 0; i < text.size(); i++) {
                    row.setField(i, value(told.get(2).get(i), text.get(i)));
                }
                return row;
        }
    }

    private static List<Object> elements(JsonNode told, JsonNode text) {
        List<Object> found = new ArrayList<>();
        text.forEach(one -> found.add(value(told.get(1), one)));
        return found;
    }

    private static Object basicValue(String name, String text) {
        switch (name) {
            case "STRING": return text;
            case "BOOLEAN": return Boolean.valueOf(text);
            case "BYTE": return Byte.valueOf(text);
            case "SHORT": return Short.valueOf(text);
            case "INT": return Integer.valueOf(text);
            case "LONG": return Long.valueOf(text);
            case "FLOAT": return Float.valueOf(text);
            case "DOUBLE": return Double.valueOf(text);
            case "BIG_INT": return new BigInteger(text);
            case "BIG_DEC": return new BigDecimal(text);
            case "SQL_DATE": return java.sql.Date.valueOf(text);
            case "SQL_TIME": return java.sql.Time.valueOf(text);
            case "SQL_TIMESTAMP": return java.sql.Timestamp.valueOf(text);
            case "INSTANT": return Instant.parse(text);
            default: return HexFormat.of().parseHex(text);
        }
    }
}
