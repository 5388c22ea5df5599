// Data for components: asked for once, again after the last answer, never while nobody looks.
import { useEffect, useRef, useState } from "./view.js";
import { get, T } from "./api.js";
import { held, lacks } from "./store.js";

/**
 * What the server answers, kept fresh.
 * @param {string | null} path null asks for nothing
 * @param {Record<string, any>} [query]
 * @param {number} [every] milliseconds between an answer and the next question; 0 asks once
 * @returns {{data: any, error: Error | null, reload: () => void}}
 */
export function useAnswer(path, query = {}, every = 0) {
  const [state, set] = useState(/** @type {{key: string, data: any, error: any}} */ ({ key: "", data: null, error: null }));
  const key = path + JSON.stringify(query);
  const again = useRef(() => {});
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const load = async () => {
      clearTimeout(timer);
      try {
        const data = await get(path, query, stop.signal);
        set({ key, data, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        set((old) => ({ key, data: old.key === key ? old.data : null, error }));
      }
      if (every) timer = window.setTimeout(tick, every);
    };
    const tick = () => {
      if (document.hidden || held.value) timer = window.setTimeout(tick, 500);
      else void load();
    };
    again.current = () => void load();
    void load();
    return () => (stop.abort(), clearTimeout(timer));
  }, [key, every]);
  const mine = state.key === key;
  return { data: mine ? state.data : null, error: mine ? state.error : null, reload: () => again.current() };
}

/** The names of credentials by their ids, where the caller may see them: events have ids. @returns {Map<string, string>} */
export function useNames() {
  const { data } = useAnswer(lacks(["manage"]) ? null : T("credentials"), { limit: 1000 });
  return new Map((data?.credentials ?? []).map((one) => [one.id, one.name]));
}
