// SPDX-License-Identifier: Apache-2.0
// Runs before the page is drawn, so that it never flashes in the wrong colours.
"use strict";
try {
    const theme = JSON.parse(localStorage.getItem("mlxcel.settings") || "{}").theme;
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
    // Storage that cannot be read: the system's colours.
}
