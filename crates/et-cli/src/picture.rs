//! Memory plans as pictures: one panel per planned buffer, instructions across, bytes up.

mod paint;
mod scale;
mod scene;

pub(crate) use scene::Scene;

use crate::render;
use paint::{Canvas, text};
use scale::Scale;
use scene::{Mark, MethodScene, Panel, Role};

/// Width of a picture.
const WIDTH: f64 = 1120.0;
/// Where the plots begin and end across.
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Height of a plot.
const PLOT: f64 = 260.0;
/// Height of a plot of few bytes: a flat one would look like more than it is.
const LOW_PLOT: f64 = 90.0;
/// Height of the strip with copies and delegates.
const STRIP: f64 = 14.0;
/// Smallest box that has its number written in it.
const LABEL: (f64, f64) = (18.0, 11.0);
/// Neighbours of one colour differ by this.
const SHADES: [f64; 3] = [1.0, 0.78, 0.62];
/// More boxes than this have no borders.
const BORDERS: usize = 600;

impl Scene {
    /// The picture as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let mut canvas = Canvas::new(WIDTH);
        canvas.heading(&self.name);
        legend(&mut canvas);
        for method in &self.methods {
            draw_method(&mut canvas, method);
        }
        canvas.finish(&self.name)
    }
}

fn legend(canvas: &mut Canvas) {
    let mut x = LEFT;
    let y = canvas.advance(24.0);
    for role in Role::ALL {
        canvas.swatch(role, x, y);
        x += 26.0 + 6.6 * role.label().len() as f64;
    }
    for mark in Mark::ALL {
        canvas.mark(mark, x + 4.0, y + 6.0, mark.label());
        canvas.small(x + 12.0, y + 10.0, mark.label());
        x += 30.0 + 6.6 * mark.label().len() as f64;
    }
}

fn draw_method(canvas: &mut Canvas, method: &MethodScene) {
    if let Some(problem) = &method.problem {
        let title = format!("{}: {problem}", method.name);
        canvas.title(LEFT, &title);
    }
    for panel in &method.panels {
        draw_panel(canvas, method, panel);
    }
}

fn draw_panel(canvas: &mut Canvas, method: &MethodScene, panel: &Panel) {
    canvas.title(LEFT, &headline(method, panel));
    let height = if panel.boxes.len() <= 2 {
        LOW_PLOT
    } else {
        PLOT
    };
    let top = canvas.advance(height);
    let across = Scale::new(method.instructions as u64 + 1, LEFT, RIGHT);
    let up = Scale::new(panel.nbytes.max(1), top + height, top);
    canvas.frame(LEFT, top, RIGHT - LEFT, height);
    for tick in up.ticks(4) {
        canvas.gridline(LEFT, up.at(tick), RIGHT);
        canvas.label_left(LEFT - 6.0, up.at(tick) + 3.5, &render::bytes(tick));
    }
    draw_boxes(canvas, panel, &across, &up);
    if panel.peak > 0 && panel.peak < panel.nbytes {
        let what = format!("{} needed at one time", render::bytes_exact(panel.peak));
        canvas.bound(LEFT, up.at(panel.peak), RIGHT, &what);
    }
    let strip = canvas.advance(STRIP);
    for (node, mark, what) in &method.marks {
        let middle = across.middle(*node as u64);
        canvas.mark(*mark, middle, strip + STRIP / 2.0, what);
    }
    let axis = canvas.advance(22.0);
    for tick in across.ticks(10) {
        canvas.label_middle(across.at(tick), axis + 12.0, &tick.to_string());
    }
    canvas.advance(16.0);
}

fn headline(method: &MethodScene, panel: &Panel) -> String {
    let values = render::count(panel.boxes.len() as u64, "value");
    let instructions = render::count(method.instructions as u64, "instruction");
    let size = render::bytes_exact(panel.nbytes);
    let peak = render::bytes(panel.peak);
    format!(
        "{}, buffer {} on {}: {size}, at most {peak} needed at one time, {values}, {instructions}",
        method.name, panel.memory_id, panel.device
    )
}

fn draw_boxes(canvas: &mut Canvas, panel: &Panel, across: &Scale, up: &Scale) {
    let bordered = panel.boxes.len() <= BORDERS;
    for role in Role::ALL {
        let boxes = panel.boxes.iter().filter(|found| found.role == role);
        let mut open = false;
        for (number, found) in boxes.enumerate() {
            if !std::mem::replace(&mut open, true) {
                canvas.open_group(role, bordered);
            }
            let (x, right) = (across.at(found.first), across.at(found.end));
            let (y, bottom) = (up.at(found.offset + found.nbytes), up.at(found.offset));
            let shade = SHADES[number % SHADES.len()];
            canvas.boxed([x, y, right - x, bottom - y], shade, &found.about);
        }
        if open {
            canvas.close_group();
        }
    }
    for found in &panel.boxes {
        let (x, right) = (across.at(found.first), across.at(found.end));
        let (y, bottom) = (up.at(found.offset + found.nbytes), up.at(found.offset));
        let label = text::fitting(&found.label, &found.number, right - x - 4.0);
        if let Some(label) = label.filter(|_| right - x >= LABEL.0 && bottom - y >= LABEL.1) {
            canvas.inside((x + right) / 2.0, (y + bottom) / 2.0 + 3.5, label);
        }
    }
}

#[cfg(test)]
mod tests;
