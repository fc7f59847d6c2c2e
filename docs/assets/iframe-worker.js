// A browser starts no worker for a page that comes from the disk, and the theme searches in one. There this runs it in a
// hidden frame. (The theme would fetch a script that does so from the network: named iframe-worker in its documentation.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(address, location.href);
          script.onload = done;
          script.onerror = failed;
          inside.document.head.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...addresses) => addresses.reduce((before, next) => before.then(() => load(next)), Promise.resolve());
      this.frame = frame;
      this.ready = load(url);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
