import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/** The columns of benchmarks/nexmark/events.py for Flink SQL: every one a function of the event's number among its kind. */
public final class NexmarkEvents {
    static final long FIRST_ID = 1000;

    private NexmarkEvents() {}

    static StringData[] words(String file) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                NexmarkEvents.class.getResourceAsStream("/" + file), StandardCharsets.UTF_8))) {
            return lines.lines().map(StringData::fromString).toArray(StringData[]::new);
        } catch (IOException error) {
            throw new IllegalStateException(file, error);
        }
    }

    static long random(long n, long salt) {
        long z = n * 0x9E3779B97F4A7C15L + salt * 0xD1B54A32D192ED03L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    static long below(long n, long salt, long bound) {
        return Long.remainderUnsigned(random(n, salt), bound);
    }

    static long price(long n, long salt) {
        long z = random(n, salt);
        double unsigned = z >= 0 ? (double) z : ((z >>> 1) | (z & 1)) * 2.0;
        return (long) Math.rint(Math.pow(10.0, unsigned / 0x1p64 * 6) * 100);
    }

    static long hotOrRecent(long n, long salt, long last, long ratio, long recent) {
        if (below(n, salt, ratio) > 0) {
            return last / 100 * 100;
        }
        long oldest = Math.max(0, last - recent + 1);
        return oldest + below(n, salt + 1, last - oldest + 1);
    }

    static long timeMs(long n, double eventsPerSecond) {
        return 1436918400000L + (long) ((n * 1000) / eventsPerSecond);
    }

    /** Number among all events. */
    static long event(long index, long share, long offset) {
        return index / share * 50 + offset + index % share;
    }

    static long bidEvent(long index) {
        return event(index, 46, 4);
    }

    static long auctionEvent(long index) {
        return event(index, 3, 1);
    }

    /** The event that a row stands for: see events.dealt. */
    public static final class Dealt extends ScalarFunction {
        public Long eval(Long rowNumber, Long total, Integer sources) {
            long row = rowNumber, stripe = 1 << 14, each = total / sources, even = each / stripe * stripe;
            long source = row / each, at = row % each;
            return at < even
                    ? (at / stripe * sources + source) * stripe + at % stripe
                    : even * sources + source * (each - even) + (at - even);
        }
    }

    public static final class EventTime extends ScalarFunction {
        public Long eval(Long index, Integer share, Integer offset) {
            return timeMs(event(index, share, offset), 10_000);
        }
    }

    public static final class BidAuction extends ScalarFunction {
        public Long eval(Long index) {
            return hotOrRecent(bidEvent(index), 1, 3 * (index / 46) + 2, 2, 100) + FIRST_ID;
        }
    }

    public static final class BidBidder extends ScalarFunction {
        public Long eval(Long index) {
            return hotOrRecent(bidEvent(index), 4, index / 46, 4, 1000) + FIRST_ID;
        }
    }

    public static final class BidPrice extends ScalarFunction {
        public Long eval(Long index) {
            return price(bidEvent(index), 10);
        }
    }

    public static final class BidChannel extends ScalarFunction {
        private static final StringData[] CHANNELS = words("channels.txt");

        public @DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData eval(Long index) {
            long n = bidEvent(index);
            return CHANNELS[(int) (below(n, 7, 2) == 0 ? below(n, 8, 4) : 4 + below(n, 9, 1000))];
        }
    }

    public static final class BidUrl extends ScalarFunction {
        private static final StringData[] PATHS = words("paths.txt");

        public @DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData eval(Long index) {
            return PATHS[(int) below(bidEvent(index), 11, PATHS.length)];
        }
    }

    public static final class BidExtra extends ScalarFunction {
        private static final StringData[] EXTRAS = words("extras.txt");

        public @DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData eval(Long index) {
            return EXTRAS[(int) below(bidEvent(index), 12, EXTRAS.length)];
        }
    }

    public static final class AuctionExpires extends ScalarFunction {
        public Long eval(Long index) {
            long n = auctionEvent(index);
            return timeMs(n, 10_000) + 1 + below(n, 5, 2 * (long) (100.0 * 50 / 3 * 1000 / 10_000));
        }
    }

    public static final class AuctionSeller extends ScalarFunction {
        public Long eval(Long index) {
            return hotOrRecent(auctionEvent(index), 6, index / 3, 4, 1000) + FIRST_ID;
        }
    }

    public static final class AuctionCategory extends ScalarFunction {
        public Long eval(Long index) {
            return below(auctionEvent(index), 9, 5) + 10;
        }
    }

    /** name, city and state of a person, by the salt of the column. */
    public static final class PersonWord extends ScalarFunction {
        private static final StringData[] NAMES = words("names.txt");
        private static final StringData[] CITIES = words("cities.txt");
        private static final StringData[] STATES = words("states.txt");

        public @DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData eval(Long index, Integer salt) {
            StringData[] from = salt == 1 ? NAMES : salt == 3 ? CITIES : STATES;
            return from[(int) below(index * 50, salt, from.length)];
        }
    }

    /** As Nexmark's count_char. */
    public static final class CountChar extends ScalarFunction {
        public Long eval(@DataTypeHint(value = "STRING", bridgedTo = StringData.class) StringData text, String character) {
            byte wanted = (byte) character.charAt(0);
            long found = 0;
            for (byte each : text.toBytes()) {
                found += each == wanted ? 1 : 0;
            }
            return found;
        }
    }
}
