/* Line charts on Chart.js. Colours come from the style sheet, so that light and dark both work; the
 * x axis is time. A chart that is not visible is not drawn. */

const made = new Map();

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function seeThrough(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
}

const DAY_MS = 24 * 3600 * 1000;

/* The time of day; on an axis of more than a day the date too. */
function clock(ms, span) {
  const at = new Date(ms);
  return span > DAY_MS ? at.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })
    : at.toLocaleTimeString("en-GB");
}

const spanOf = (axis) => axis.max - axis.min;

/* Upright lines with a word, for what happened at that time. */
const markers = {
  id: "markers",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales: { x } } = chart;
    let lastLabel = -Infinity;
    ctx.save();
    ctx.font = "11px system-ui, sans-serif";
    for (const m of chart.options.plugins.markers.list || []) {
      const at = x.getPixelForValue(m.x);
      if (at < area.left || at > area.right) continue;
      ctx.strokeStyle = ctx.fillStyle = colour(m.colour);
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(at, area.top);
      ctx.lineTo(at, area.bottom);
      ctx.stroke();
      if (at - lastLabel < 60) continue;
      lastLabel = at;
      const isRight = at + ctx.measureText(m.label).width + 6 > area.right;
      ctx.textAlign = isRight ? "right" : "left";
      ctx.fillText(m.label, at + (isRight ? -4 : 4), area.top + 10);
    }
    ctx.restore();
  },
};

function axes(yTitle, y) {
  const grid = { color: colour("--line") }, ticks = { color: colour("--soft") };
  return {
    x: { type: "linear", bounds: "data", grid: { display: false }, ticks: { ...ticks, maxRotation: 0, maxTicksLimit: 7,
      callback(ms) { return clock(ms, spanOf(this)); } } },
    y: { grid, ticks: { ...ticks, maxTicksLimit: 6 }, title: { display: true, text: yTitle, color: colour("--soft") },
      ...y },
  };
}

function make(canvas, yTitle, y) {
  const ink = colour("--ink");
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [] },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, spanGaps: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: axes(yTitle, y),
      plugins: {
        markers: { list: [] },
        tooltip: { filter: (item) => !item.dataset.isBound,
          callbacks: { title: (items) => (items.length ? clock(items[0].parsed.x, spanOf(items[0].chart.scales.x)) : "") } },
        legend: { labels: { color: ink, boxWidth: 18, boxHeight: 2,
          filter: (item, data) => !data.datasets[item.datasetIndex].isBound } },
      },
    },
    plugins: [markers],
  });
}

/* chart: {id, y: title, range: Chart.js options of the y axis}; marks: [{x, label, colour}] */
export function draw(chart, datasets, marks) {
  const canvas = document.getElementById(chart.id);
  if (!canvas.offsetParent) return;
  if (!made.has(chart.id)) made.set(chart.id, make(canvas, chart.y, chart.range || {}));
  const c = made.get(chart.id);
  c.data.datasets = datasets.filter((d) => d.data.length);
  c.options.plugins.markers.list = marks || [];
  c.options.scales.x.ticks.maxTicksLimit = Math.max(2, Math.floor(canvas.offsetWidth / 110));
  c.update();
}

export function line(label, data, colourName, more) {
  const c = colour(colourName);
  return { label, data, borderColor: c, backgroundColor: c, borderWidth: 1.6, pointRadius: 0,
    pointHitRadius: 8, tension: 0, ...more };
}

/* Colours change with the system's theme: made again at the next draw. */
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const c of made.values()) c.destroy();
  made.clear();
});
