export const h: any;
export const render: (node: any, parent: Element) => void;
export const Fragment: any;
export function createContext<T>(value: T): any;
