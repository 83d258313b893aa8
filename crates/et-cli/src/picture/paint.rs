//! SVG, element by element. Colours stay apart for eyes that see few of them, on light and on dark ground.

use super::scene::{Mark, Role};
use std::fmt::Write;

pub(super) mod text;

/// Added to colours on dark ground, and what cannot be said by attributes.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:11px;fill:#333}\
.h{font-size:15px;font-weight:600}.t{font-size:12px;font-weight:600}\
.s{fill:#555}.i{font-size:10px;fill:#111;text-anchor:middle;pointer-events:none}\
.y{text-anchor:end;fill:#555}.x{text-anchor:middle;fill:#555}\
rect:hover{stroke:#000;stroke-width:1.5}\
@media(prefers-color-scheme:dark){\
.bg{fill:#16181d}.f{fill:#20242c;stroke:#4a5160}.g{stroke:#2f3541}text{fill:#e4e6eb}\
.s,.y,.x{fill:#a8afbd}.i{fill:#0b0c0e}.b{stroke:#ff9f6b}.m{fill:#e4e6eb}\
g.v{stroke:#16181d}rect:hover{stroke:#fff}}";

/// A picture that grows downwards.
pub(super) struct Canvas {
    width: f64,
    y: f64,
    body: String,
}

/// A number as short as it can be with two digits behind the point.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        Self {
            width,
            y: 12.0,
            body: String::new(),
        }
    }

    /// Takes so much height, and returns where it begins.
    pub(super) fn advance(&mut self, height: f64) -> f64 {
        let y = self.y;
        self.y += height;
        y
    }

    fn write(&mut self, element: std::fmt::Arguments<'_>) {
        self.body
            .write_fmt(element)
            .and_then(|()| self.body.write_char('\n'))
            .expect("invariant: a string takes everything");
    }

    fn words(&mut self, class: &str, x: f64, y: f64, words: &str) {
        let (x, y, words) = (short(x), short(y), text::escaped(words));
        self.write(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}">{words}</text>"#
        ));
    }

    pub(super) fn heading(&mut self, words: &str) {
        let y = self.advance(30.0);
        self.words("h", 20.0, y + 14.0, words);
    }

    pub(super) fn title(&mut self, x: f64, words: &str) {
        let y = self.advance(22.0);
        self.words("t", x, y + 12.0, words);
    }

    pub(super) fn small(&mut self, x: f64, y: f64, words: &str) {
        self.words("s", x, y, words);
    }

    pub(super) fn label_left(&mut self, x: f64, y: f64, words: &str) {
        self.words("y", x, y, words);
    }

    pub(super) fn label_middle(&mut self, x: f64, y: f64, words: &str) {
        self.words("x", x, y, words);
    }

    pub(super) fn inside(&mut self, x: f64, y: f64, words: &str) {
        self.words("i", x, y, words);
    }

    pub(super) fn swatch(&mut self, role: Role, x: f64, y: f64) {
        let (fill, at, down) = (role.fill(), short(x), short(y));
        self.write(format_args!(
            r#"<rect x="{at}" y="{down}" width="12" height="12" rx="2" fill="{fill}"/>"#
        ));
        self.small(x + 16.0, y + 10.0, role.label());
    }

    pub(super) fn frame(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let [x, y, width, height] = [x, y, width, height].map(short);
        self.write(format_args!(
            r##"<rect class="f" x="{x}" y="{y}" width="{width}" height="{height}" fill="#f6f7f9" stroke="#b9bec7"/>"##
        ));
    }

    pub(super) fn gridline(&mut self, x: f64, y: f64, right: f64) {
        let [x, y, right] = [x, y, right].map(short);
        self.write(format_args!(
            r##"<path class="g" d="M{x} {y}H{right}" stroke="#dfe2e8"/>"##
        ));
    }

    /// The height that no plan can be below.
    pub(super) fn bound(&mut self, x: f64, y: f64, right: f64, what: &str) {
        let ([x, y, right], what) = ([x, y, right].map(short), text::escaped(what));
        self.write(format_args!(
            r##"<path class="b" d="M{x} {y}H{right}" stroke="#b3400a" stroke-width="1.5" stroke-dasharray="6 4"><title>{what}</title></path>"##
        ));
    }

    pub(super) fn open_group(&mut self, role: Role, bordered: bool) {
        let fill = role.fill();
        let border = match bordered {
            true => r##" stroke="#ffffff" stroke-width="0.75""##,
            false => "",
        };
        let class = if bordered { "v" } else { "n" };
        self.write(format_args!(r#"<g class="{class}" fill="{fill}"{border}>"#));
    }

    pub(super) fn close_group(&mut self) {
        self.write(format_args!("</g>"));
    }

    /// A box (x, y, width, height), never so small that it cannot be seen.
    pub(super) fn boxed(&mut self, [x, y, width, height]: [f64; 4], shade: f64, about: &str) {
        let [x, y, shade] = [x, y, shade].map(short);
        let [width, height] = [width, height].map(|length| short(length.max(0.75)));
        let about = text::escaped(about);
        self.write(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill-opacity="{shade}"><title>{about}</title></rect>"#
        ));
    }

    pub(super) fn mark(&mut self, mark: Mark, x: f64, y: f64, about: &str) {
        let (fill, about) = (mark.fill(), text::escaped(about));
        let [left, right, middle] = [x - 4.0, x + 4.0, x].map(short);
        let [top, bottom] = [y - 4.0, y + 4.0].map(short);
        let path = match mark {
            Mark::ToDevice => format!("M{left} {bottom}H{right}L{middle} {top}Z"),
            Mark::ToHost => format!("M{left} {top}H{right}L{middle} {bottom}Z"),
            Mark::Delegate => format!("M{left} {top}H{right}V{bottom}H{left}Z"),
        };
        self.write(format_args!(
            r#"<path class="m" d="{path}" fill="{fill}"><title>{about}</title></path>"#
        ));
    }

    pub(super) fn finish(self, name: &str) -> String {
        let [width, height] = [self.width, self.y + 8.0].map(short);
        let (name, body) = (text::escaped(name), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"Memory plan of {name}\">\n<style>{STYLE}</style>\n\
             <rect class=\"bg\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}
