// The parallel axes: their colours and names.

/** In the order of the legend. */
export const AXES = ["tp", "cp", "ep", "dp", "pp"];

const NAMES = { tp: "tensor", cp: "context", ep: "experts", dp: "data", pp: "pipeline" };

/** tp: tensor. */
export const named = (axis) => `${axis}: ${NAMES[axis]}`;

/** The colour of an axis, for CSS. */
export const colour = (axis) => `var(--axis-${axis})`;
