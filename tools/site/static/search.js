// Searches the index of the site, which is loaded when the reader begins to search. It is a script,
// not data, so that it can be loaded from a folder without a server, too.
const root = document.currentScript.dataset.root;

document.addEventListener("DOMContentLoaded", () => {
  const input = document.getElementById("search"), list = document.getElementById("found");
  let loading;
  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root + "index.js";
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  input.addEventListener("focus", load);
  input.addEventListener("input", async () => {
    await load();
    show(list, find(searchIndex, input.value));
  });
  input.addEventListener("keydown", (e) => {
    if (e.key == "Enter") list.querySelector("a")?.click();
    if (e.key == "Escape") list.hidden = true;
  });
  document.addEventListener("keydown", (e) => {
    if (e.key == "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
      e.preventDefault();
      input.focus();
    }
  });
});

// find returns the sections that have a word with each of the beginnings in a query, the best first.
// A section whose heading is the query, such as the name of a function, is better than all others.
// A posting is the number of a section, doubled, and one more if the word is in the heading.
function find(index, query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  let scores = null;
  for (const word of words) {
    const found = new Map();
    for (let i = first(index.words, word); i < index.words.length && index.words[i].startsWith(word); i++) {
      let section = 0;
      for (const step of index.postings[i]) {
        section += step >> 1;
        const score = (index.words[i] == word ? 3 : 1) * (step & 1 ? 5 : 1);
        found.set(section, Math.max(score, found.get(section) ?? 0));
      }
    }
    if (scores) {
      for (const [section, score] of found) {
        if (scores.has(section)) found.set(section, score + scores.get(section));
        else found.delete(section);
      }
    }
    scores = found;
  }
  for (const section of scores?.keys() ?? []) {
    if (index.sections[section][2].toLowerCase() == query.trim().toLowerCase()) scores.set(section, 1000);
  }
  return [...(scores ?? [])].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 20).map(([i]) => {
    const [page, id, title] = index.sections[i];
    const [name, pageTitle] = index.pages[page];
    return { url: root + name + (id && "#" + id), title, page: pageTitle };
  });
}

// first returns the position of the first word that is not less than the given one.
function first(words, word) {
  let low = 0, high = words.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle] < word) low = middle + 1;
    else high = middle;
  }
  return low;
}

function show(list, results) {
  list.replaceChildren(...results.map((r) => {
    const item = document.createElement("li"), link = document.createElement("a"), page = document.createElement("small");
    link.href = r.url;
    link.textContent = r.title + " ";
    page.textContent = r.title == r.page ? "" : r.page;
    link.append(page);
    item.append(link);
    return item;
  }));
  list.hidden = results.length == 0;
}
