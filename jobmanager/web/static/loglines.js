// Entries of a log with their levels: a line that begins with a time, or is JSON, and the lines that follow it.

export const LEVELS = ["DEBUG", "INFO", "WARN", "ERROR"];
const BEGIN = /^\d{4}-\d\d-\d\d[ T][\d:.,]+\S* (TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b|^\{.*"level": ?"(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"/;
const ALIKE = { TRACE: "DEBUG", FATAL: "ERROR" };

// Returns [{ level, text }]; lines before the first entry, and files that are no log, have the level "".
export function entries(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const begin = BEGIN.exec(line);
    const level = begin && (ALIKE[begin[1] || begin[2]] || begin[1] || begin[2]);
    if (level || found.length === 0) found.push({ level: level || "", text: line });
    else found.at(-1).text += `\n${line}`;
  }
  return found;
}

// Those of a level or a higher one, that have the text somewhere.
export function chosen(all, least, wanted) {
  const from = LEVELS.indexOf(least);
  const text = wanted.toLowerCase();
  return all.filter((entry) => (from < 0 || LEVELS.indexOf(entry.level) >= from) && (!text || entry.text.toLowerCase().includes(text)));
}

// Neighbours of one level as one, so that the document stays small.
export function joined(all) {
  const found = [];
  for (const entry of all) {
    if (found.length && found.at(-1).level === entry.level) found.at(-1).text += `\n${entry.text}`;
    else found.push({ ...entry });
  }
  return found;
}
