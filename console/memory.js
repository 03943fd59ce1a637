// What this browser keeps: nothing secret, and nothing of what was said.
const REMEMBERED = 500;

export function remembered(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? '{}') ?? {};
  } catch {
    return {};
  }
}

/** @returns {string|null} */
export function recalled(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Before somebody else uses this browser. */
export function forgetAll() {
  try {
    for (const name of Object.keys(localStorage)) {
      if (name.startsWith('baton.')) localStorage.removeItem(name);
    }
  } catch {
    // Nothing was kept.
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

/** Where a tab was when its user went to log in elsewhere. */
export function rememberPlace(hash) {
  try {
    sessionStorage.setItem('baton.place', hash);
  } catch {
    // It begins at the beginning.
  }
}

export function takePlace() {
  try {
    const place = sessionStorage.getItem('baton.place');
    sessionStorage.removeItem('baton.place');
    return place === null || place.startsWith('#/') ? place : '#/';
  } catch {
    return null;
  }
}
