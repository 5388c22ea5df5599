type Update<T> = T | ((old: T) => T);
export function useState<T>(initial: T | (() => T)): [T, (next: Update<T>) => void];
export function useEffect(effect: () => any, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => any, inputs?: readonly unknown[]): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T>(callback: T, inputs: readonly unknown[]): T;
export function useId(): string;
