import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

/** What Avro Java reads of a value that was written with one schema, with another: run by record_avro.py. */
public class AvroResolutions {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    ArrayNode found = JSON.createArrayNode();
    for (JsonNode one : JSON.readTree(new File(args[0]))) found.add(answer((ObjectNode) one));
    JSON.writeValue(new File(args[1]), found);
  }

  static ObjectNode answer(ObjectNode one) throws Exception {
    try {
      Schema writer = new Schema.Parser().parse(one.get("writer").toString());
      byte[] datum = bytes(writer, one.get("value").toString());
      one.put("datum", HexFormat.of().formatHex(datum));
      Schema reader = new Schema.Parser().parse(one.get("reader").toString());
      BinaryDecoder in = DecoderFactory.get().binaryDecoder(datum, null);
      Object value = new GenericDatumReader<Object>(writer, reader, conversions()).read(null, in);
      one.set("found", shown(value));
    } catch (Exception error) {
      one.put("error", error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).split("\n")[0]);
    }
    return one;
  }

  static byte[] bytes(Schema schema, String json) throws Exception {
    Object value = new GenericDatumReader<Object>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
    new GenericDatumWriter<Object>(schema).write(value, encoder);
    encoder.flush();
    return out.toByteArray();
  }

  static GenericData conversions() {
    GenericData data = new GenericData();
    data.addLogicalTypeConversion(new Conversions.DecimalConversion());
    data.addLogicalTypeConversion(new Conversions.UUIDConversion());
    data.addLogicalTypeConversion(new TimeConversions.DateConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
    return data;
  }

  /** Values that JSON has not are an object with the name of their kind. */
  static JsonNode shown(Object value) {
    if (value instanceof IndexedRecord record) {
      ObjectNode found = JSON.createObjectNode();
      for (Schema.Field field : record.getSchema().getFields()) found.set(field.name(), shown(record.get(field.pos())));
      return found;
    }
    if (value instanceof List<?> list) {
      ArrayNode found = JSON.createArrayNode();
      for (Object item : list) found.add(shown(item));
      return found;
    }
    if (value instanceof Map<?, ?> map) {
      ObjectNode found = JSON.createObjectNode();
      map.forEach((key, item) -> found.set(key.toString(), shown(item)));
      return found;
    }
    if (value instanceof ByteBuffer buffer) {
      byte[] content = new byte[buffer.remaining()];
      buffer.duplicate().get(content);
      return of("bytes", HexFormat.of().formatHex(content));
    }
    if (value instanceof GenericFixed fixed) return of("bytes", HexFormat.of().formatHex(fixed.bytes()));
    if (value instanceof Instant instant) return of("instant", micros(instant));
    if (value instanceof LocalDateTime local) return of("local", micros(local.toInstant(ZoneOffset.UTC)));
    if (value instanceof LocalDate date) return of("date", String.valueOf(date.toEpochDay()));
    if (value instanceof LocalTime time) return of("time", String.valueOf(time.toNanoOfDay() / 1000));
    if (value instanceof java.math.BigDecimal decimal) return of("decimal", decimal.toPlainString());
    if (value instanceof Float number) return of("float", Float.toString(number));
    if (value instanceof Double number) return of("double", Double.toString(number));
    if (value instanceof CharSequence || value instanceof java.util.UUID || value instanceof GenericEnumSymbol)
      return JSON.getNodeFactory().textNode(value.toString());
    return JSON.valueToTree(value);
  }

  static String micros(Instant instant) { return String.valueOf(ChronoUnit.MICROS.between(Instant.EPOCH, instant)); }

  static ObjectNode of(String kind, String text) { return JSON.createObjectNode().put(kind, text); }
}
