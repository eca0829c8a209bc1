// Server-sent events that are asked for with headers, which an EventSource of the browser's cannot have. It is used alike: listeners, onerror, readyState, close.

const AGAIN_MS = 1000;

export class SignedEvents extends EventTarget {
  constructor(url, headers) {
    super();
    this.url = url;
    this.headers = headers;
    this.readyState = EventSource.CONNECTING;
    this.onerror = () => {};
    this.last = ""; // the id of the last event: with it the stream is resumed
    this.closing = new AbortController();
    this.read();
  }

  close() {
    this.readyState = EventSource.CLOSED;
    this.closing.abort();
  }

  // Until it is closed or refused; a stream that ends, or does not begin, is asked for again.
  async read() {
    if (this.readyState === EventSource.CLOSED) return;
    let isRefused = false;
    try {
      const headers = this.last ? { ...this.headers, "last-event-id": this.last } : this.headers;
      const answer = await fetch(this.url, { headers, cache: "no-store", signal: this.closing.signal });
      isRefused = !answer.ok;
      if (answer.ok) await this.take(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch {
      isRefused = false; // the connection is gone, or was closed here
    }
    if (this.readyState === EventSource.CLOSED) return;
    this.readyState = isRefused ? EventSource.CLOSED : EventSource.CONNECTING;
    this.onerror();
    if (!isRefused) setTimeout(() => this.read(), AGAIN_MS);
  }

  async take(reader) {
    this.readyState = EventSource.OPEN;
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      let looked = Math.max(0, text.length - 1);
      text += value;
      for (let end; (end = text.indexOf("\n\n", looked)) >= 0; looked = 0) {
        this.dispatch(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  }

  dispatch(event) {
    let name = "message";
    let data = "";
    for (const line of event.split("\n")) {
      const value = line.slice(line.indexOf(": ") + 2);
      if (line.startsWith("id: ")) this.last = value;
      else if (line.startsWith("event: ")) name = value;
      else if (line.startsWith("data: ")) data = value; // one line: it is JSON
    }
    if (data) this.dispatchEvent(new MessageEvent(name, { data }));
  }
}
