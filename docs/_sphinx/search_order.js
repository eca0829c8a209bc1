/* What a search shows first: pages for users, then the reference, then decisions and internals. The other numbers are Sphinx's. */
var Scorer = {
  score: ([docname, , , , score]) => {
    if (/^(tutorial|concepts|guide)\//.test(docname)) return score + 10;
    if (/^(adr|internals)\/|^(architecture|scenarios|state-machines|soak)$/.test(docname)) return score - 15;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
