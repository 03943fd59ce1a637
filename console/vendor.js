// The two libraries of the page, as they come from npm; see vendor/README.md.
import { Component, Fragment, createRef, h, render } from './vendor/preact.js';
import htm from './vendor/htm.js';

export const html = htm.bind(h);
export { Component, Fragment, createRef, h, render };
