import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/** Nexmark's function count_char, which q14 calls. */
public final class CountChar extends ScalarFunction {
    public Long eval(@DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData text, String character) {
        byte wanted = (byte) character.charAt(0);
        long found = 0;
        for (byte each : text.toBytes()) {
            found += each == wanted ? 1 : 0;
        }
        return found;
    }
}
