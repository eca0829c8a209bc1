// What is shown, as values; and the least that has to be changed in the document to show it.
//
//   patch(parent, [h("p", { class: "note" }, text)])
//
// Text becomes text nodes and never markup. Elements are kept by `key`, or by place and tag, so that focus, scrolling and
// selection outlive an update.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return { tag, props: props || {}, children: children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "") };
}

export function patch(parent, values) {
  const wanted = [values].flat(Infinity).filter((value) => value !== null && value !== undefined && value !== false && value !== "");
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.tgKey !== undefined) keyed.set(node.tgKey, node);
  let at = parent.firstChild;
  for (const value of wanted) {
    const key = typeof value === "object" ? value.props.key : undefined;
    const found = key !== undefined ? keyed.get(key) : at !== null && at.tgKey === undefined && fits(at, value) ? at : null;
    if (found && fits(found, value)) {
      if (key !== undefined) keyed.delete(key);
      if (found === at) at = at.nextSibling;
      else parent.insertBefore(found, at);
      update(found, value);
    } else {
      parent.insertBefore(create(value, parent), at);
    }
  }
  while (at !== null) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

function fits(node, value) {
  if (typeof value !== "object") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === value.tag;
}

function create(value, parent) {
  if (typeof value !== "object") return document.createTextNode(String(value));
  const isSvg = value.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  const node = isSvg ? document.createElementNS(SVG, value.tag) : document.createElement(value.tag);
  if (value.props.key !== undefined) node.tgKey = value.props.key;
  node.tgProps = {};
  update(node, value);
  if (value.props.created) value.props.created(node);
  return node;
}

function update(node, value) {
  if (typeof value !== "object") {
    const text = String(value);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.tgProps || {};
  for (const name in before) if (!(name in value.props)) set(node, name, null, before[name]);
  const isList = value.tag === "select"; // its value is one of its options, which have to be there first
  for (const name in value.props) if ((value.props[name] !== before[name] || name === "value") && !(isList && name === "value")) set(node, name, value.props[name], before[name]);
  node.tgProps = value.props;
  if (!value.props.own) patch(node, value.children); // `own`: somebody else fills it
  if (isList && value.props.value !== undefined) set(node, "value", value.props.value); // else it is the reader's own choice
}

function set(node, name, value, before) {
  if (name === "key" || name === "created" || name === "own") return;
  if (name.startsWith("on")) {
    const type = name.slice(2);
    if (before) node.removeEventListener(type, before);
    if (value) node.addEventListener(type, value);
  } else if (name === "style") {
    for (const key in before || {}) if (!value || !(key in value)) node.style.removeProperty(key);
    for (const key in value || {}) if (!before || before[key] !== value[key]) node.style.setProperty(key, value[key]);
  } else if (name === "value" || name === "checked" || name === "disabled" || name === "open") {
    const wanted = value ?? (name === "value" ? "" : false);
    if (node[name] !== wanted) node[name] = wanted;
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}
