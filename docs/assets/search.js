// To the theme's search a leading dash means "without this word". To readers of these pages it begins an option: --share.
(() => {
  const QUERY = 2; // the type of message that asks the search
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const asked = message?.type === QUERY ? { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") } : message;
    post.call(this, asked, ...rest);
  };
})();
