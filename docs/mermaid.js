// Draws the diagrams of the book. Without a connection, their source stays readable.
"use strict";

const sources = [...document.querySelectorAll("code.language-mermaid")];

async function draw() {
  const { default: mermaid } = await import("https://cdn.jsdelivr.net/npm/mermaid@11.12.0/dist/mermaid.esm.min.mjs");
  const isDark = ["ayu", "coal", "navy"].some((theme) => document.documentElement.classList.contains(theme));
  mermaid.initialize({ startOnLoad: false, theme: isDark ? "dark" : "default" });
  const nodes = sources.map((source) => {
    const diagram = document.createElement("div");
    diagram.textContent = source.textContent;
    source.closest("pre").replaceWith(diagram);
    return diagram;
  });
  await mermaid.run({ nodes });
}

if (sources.length > 0) {
  draw().catch((error) => console.warn("the diagrams cannot be drawn:", error));
}
