// Pictures of 16 by 16, drawn with lines.
import { html } from "./view.js";

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M2 9.5 5 6l3 3 5.5-6M2 13.5h12",
  queues: "M2.5 4h11M2.5 8h11M2.5 12h7",
  map: "M4 4.5h2.5a2 2 0 0 1 2 2v3a2 2 0 0 0 2 2H12M4 11.5h2M2 3h2v3H2zM2 10h2v3H2zM12 10h2v3h-2z",
  exchanges: "M2 5h10M9.5 2.5 12 5 9.5 7.5M14 11H4M6.5 8.5 4 11l2.5 2.5",
  listeners: "M5 9.5a3.5 3.5 0 1 1 6 0M8 8v3.5M4 13.5h8",
  tail: "M2.5 3.5 6 7l-3.5 3.5M8 12h5.5",
  history: "M8 4.5V8l2.5 1.5M2.5 8a5.5 5.5 0 1 0 1.8-4.1M2.5 2.5v2.6h2.6",
  credentials: "M10.5 2.5a3 3 0 1 1-2.4 4.8L2.5 13v.5H5v-2h2v-2l1.4-1.4M11 5h.01",
  server: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7-4.5z",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  send: "M2.5 8 13.5 3l-4 10.5-2.5-4z",
  out: "M6.5 2.5h-4v11h4M7 8h7M11.5 5.5 14 8l-2.5 2.5",
  refresh: "M13 8a5 5 0 1 1-1.5-3.5M13 2.5V5h-2.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  keys: "M1.5 4.5h13v7h-13zM4 7h.01M6.5 7h.01M9 7h.01M11.5 7h.01M5 9.5h6",
};

/** @param {{name: string}} props */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

export const Mark = () => html`<svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
  <rect width="32" height="32" rx="8" fill="#2456d6" />
  <path d="M7 11.5 16 18l9-6.5" fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round" />
  <rect x="6" y="9" width="20" height="14" rx="2.6" fill="none" stroke="#fff" stroke-width="2.4" />
</svg>`;
