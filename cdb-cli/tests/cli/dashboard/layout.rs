//! Checks of a view's layout, in light and dark and at the widths of a desktop and of a phone.

use serde_json::{Value, json};

use super::browser::Browser;

/// The widths in pixels of a desktop and of a phone, and the names of their screenshots.
const WIDTHS: [(u32, &str); 2] = [(1200, ""), (390, "-phone")];

/// Returns the texts whose contrast with their background is below 4.5, the limit of WCAG 2.2 AA.
/// Disabled controls are exempt.
const FAINT: &str = r"(() => {
  const parts = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    const color = parts(getComputedStyle(element).backgroundColor);
    return color.length < 4 || color[3] > 0 ? color : ground(element.parentElement);
  };
  const faint = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (!text.length || !element.checkVisibility() || element.closest('svg, noscript, :disabled')) continue;
    const [a, b] = [luminance(parts(getComputedStyle(element).color)), luminance(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${element.tagName} ${element.className} ${text[0].data}`);
  }
  return faint;
})()";

/// Returns the elements that stay over the content when the page scrolls.
const FIXED: &str = "[...document.querySelectorAll('body *')].filter((one) => getComputedStyle(one).position === 'fixed').length";

fn set_scheme(browser: &mut Browser, scheme: &str) {
    let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
    browser.call(
        "Emulation.setEmulatedMedia",
        &json!({ "features": feature }),
    );
}

pub(super) fn set_width(browser: &mut Browser, width: u32) {
    let metrics =
        json!({ "width": width, "height": 860, "deviceScaleFactor": 1, "mobile": width < 700 });
    browser.call("Emulation.setDeviceMetricsOverride", &metrics);
}

/// Checks the shown view, and saves its screenshots.
pub(crate) fn check(browser: &mut Browser, view: &str) {
    assert_eq!(browser.evaluate(FIXED), json!(0), "{view} has a fixed bar");
    for (width, suffix) in WIDTHS {
        set_width(browser, width);
        let shown = browser.evaluate("document.documentElement.scrollWidth");
        assert_eq!(
            shown.as_u64().map(|pixels| pixels <= u64::from(width)),
            Some(true),
            "{view} is {shown} pixels wide, and not {width}"
        );
        for scheme in ["light", "dark"] {
            set_scheme(browser, scheme);
            let faint = browser.evaluate(FAINT);
            assert_eq!(faint, Value::Array(Vec::new()), "{view}, {scheme}");
        }
        browser.screenshot(&format!("{view}{suffix}"));
    }
    set_width(browser, WIDTHS[0].0);
    set_scheme(browser, "light");
}

/// Checks that a phone shows the rows of a table as cards.
pub(super) fn check_cards(browser: &mut Browser) {
    set_width(browser, 390);
    for (question, expected) in [
        (
            "getComputedStyle(document.querySelector('tbody tr')).display",
            "block",
        ),
        (
            "getComputedStyle(document.querySelector('thead')).position",
            "absolute",
        ),
        (
            "document.querySelector('td.name').dataset.label",
            "Instance",
        ),
    ] {
        assert_eq!(browser.evaluate(question), json!(expected), "{question}");
    }
    set_width(browser, WIDTHS[0].0);
}
