// Figures as people read them.

const plain = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const whole = (value) => plain.format(value);

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) return "0 ms";
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [d, hh, m, s] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d) return `${d} d ${hh} h`;
  return hh ? `${hh} h ${String(m).padStart(2, "0")} min` : `${m} min ${String(s).padStart(2, "0")} s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10 && value % 1) return value.toFixed(1);
  if (value < 10000) return whole(value);
  const units = ["", " k", " M", " G", " T"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return (value < 100 ? value.toFixed(1) : Math.round(value)) + units[at];
}

export const perSecond = (value) => (value === undefined ? "–" : `${short(value)}/s`);
export const percent = (share) => (share === undefined ? "–" : `${Math.round(share * 100)} %`);
export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

export function moment(ms) {
  if (ms === null || ms === undefined) return "–";
  const date = new Date(ms);
  const pad = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(ms)}`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

const END_OF_TIME_MS = 9e15;
const START_OF_TIME_MS = -9e15;

export function watermark(ms, nowMs) {
  if (ms === null || ms === undefined || ms < START_OF_TIME_MS) return "none";
  if (ms > END_OF_TIME_MS) return "end of time";
  const behind = nowMs - ms;
  return behind >= 0 && behind < 86400000 ? `${duration(behind)} behind` : moment(ms);
}
