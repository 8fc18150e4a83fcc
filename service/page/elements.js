// Elements of the page, whose text is never markup.

/** An element with a class and its children, or lists of them: strings become text. */
export function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  for (const child of children.flat(Infinity)) made.append(child);
  return made;
}

/** A link without text to an address, if it is one of the web. */
export function webAddress(address) {
  const parsed = typeof address === "string" && URL.canParse(address) ? new URL(address) : null;
  if (!["http:", "https:"].includes(parsed?.protocol)) return null;
  const link = element("a", "outside");
  Object.assign(link, { href: parsed.href, target: "_blank", rel: "noopener noreferrer" });
  return link;
}
