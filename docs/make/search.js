// Search in pages that are opened from a folder. Browsers start no worker there, so the worker's script runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(script) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const element = inside.document.createElement("script");
      element.src = new URL(script, location.href).href;
      element.onload = () => {
        this.inside = inside;
        this.waiting.forEach((data) => this.postMessage(data));
      };
      element.onerror = (event) => this.onerror?.(event);
      inside.document.body.append(element);
    }
    postMessage(data) {
      if (this.inside) setTimeout(() => this.inside.onmessage({ data }));
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
