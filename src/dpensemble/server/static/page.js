// The slider requests its quote at once. Without this script, the button does.
for (const form of document.querySelectorAll("form[data-quote]")) {
  const slider = form.querySelector("input[type=range]");
  const shown = form.querySelector("output");
  const said = form.querySelector("[data-said]");
  let timer = 0;
  slider.addEventListener("input", () => {
    shown.textContent = Number(slider.value).toLocaleString("en");
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const wanted = slider.value;
      const answer = await fetch(`${form.dataset.quote}?answers=${wanted}`);
      if (answer.ok && wanted === slider.value) said.textContent = (await answer.json()).words;
    }, 150);
  });
}
