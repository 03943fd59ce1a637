// What this browser keeps: nothing secret, and nothing of what was said.
const REMEMBERED = 500;

export function remembered(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? '{}') ?? {};
  } catch {
    return {};
  }
}

export function rememberIn(name, key, value) {
  const entries = Object.entries({ ...remembered(name), [key]: value }).slice(-REMEMBERED);
  remember(name, JSON.stringify(Object.fromEntries(entries)));
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing: it is a convenience.
  }
}
