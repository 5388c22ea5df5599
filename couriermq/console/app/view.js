// What every page builds with: components, hooks and signals.
import { h, render, Fragment, createContext } from "../vendor/preact.js";
import { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId } from "../vendor/hooks.js";
import { signal, computed, effect, batch, useSignal, useComputed } from "../vendor/signals.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { h, render, Fragment, createContext };
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId };
export { signal, computed, effect, batch, useSignal, useComputed };
