//! What a picture has in it. How it looks is for people to say; that it is whole and safe is said here.

use super::*;
use et_schema::ScalarType;
use et_schema::builder::MethodBuilder;
use et_schema::owned::{Program, Tensor};

fn at(offset: u64) -> Tensor {
    Tensor::new(ScalarType::Float, &[4]).planned(1, offset)
}

fn picture(method: MethodBuilder) -> String {
    let program = Program {
        execution_plan: vec![method.finish()],
        ..Program::default()
    };
    Scene::new("model.pte", &program).to_svg()
}

/// `count` values, each made of the last, in two places by turns.
fn chain(count: u64) -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    method.buffer(32);
    let mut last = method.input(at(0));
    for step in 1..count {
        let next = method.tensor(at(16 * (step % 2)));
        method.kernel("aten::relu.out", &[last, next, next]);
        last = next;
    }
    method.mark_output(last);
    method
}

#[track_caller]
fn count(picture: &str, what: &str, expected: usize) {
    assert_eq!(picture.matches(what).count(), expected, "{what}");
}

/// Every element that is opened is closed, in order.
#[track_caller]
fn check_whole(picture: &str) {
    let mut open = Vec::new();
    for tag in picture.split('<').skip(1) {
        let tag = tag.split_once('>').expect("tags end").0;
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn ten_values_are_ten_boxes_with_numbers_in_them() {
    let picture = picture(chain(10));
    check_whole(&picture);
    count(&picture, "<title>value ", 10);
    count(&picture, r#"class="i""#, 10);
    count(
        &picture,
        "buffer 1 on cpu: 32 B, at most 32 B needed at one time, 10 values, 9 instructions",
        1,
    );
    assert!(picture.contains(
        "value 1: Float [4]\n16 bytes, from 16 to 32\ninstructions 0 to 1\nmade by aten::relu.out"
    ));
}

#[test]
fn a_thousand_values_have_neither_borders_nor_numbers() {
    let picture = picture(chain(1000));
    check_whole(&picture);
    count(&picture, "<title>value ", 1000);
    count(&picture, r#"class="i""#, 0);
    count(&picture, r#"<g class="v""#, 0);
    assert!(picture.len() < 400_000, "{}", picture.len());
}

#[test]
fn every_device_has_a_panel_and_every_copy_a_mark() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let file = std::fs::read(format!("{fixtures}/dev_single_add/model.pte")).unwrap();
    let program = et_schema::VerifiedProgram::from_file_bytes(&file).unwrap();
    let program = Program::from_verified(&program).unwrap();
    let picture = Scene::new("model.pte", &program).to_svg();
    check_whole(&picture);
    count(&picture, "buffer 1 on cpu", 1);
    count(&picture, "buffer 2 on cuda:0", 1);
    // Two panels show the marks of one method.
    count(&picture, "et_copy::_h2d_copy.out, 24 B</title>", 4);
    count(&picture, "et_copy::_d2h_copy.out, 24 B</title>", 2);
    count(
        &picture,
        "instruction 2: delegate 0 (NestedProgramBackend)</title>",
        2,
    );
    // The same bytes every time.
    assert_eq!(picture, Scene::new("model.pte", &program).to_svg());
}

#[test]
fn the_structure_is_the_golden_one() {
    let picture = picture(chain(3));
    // Elements without numbers: what moves a box by a pixel is no change of structure.
    let kept: String = picture
        .chars()
        .filter(|character| !character.is_ascii_digit() && !matches!(character, '.' | '-'))
        .collect();
    let body = kept.split_once("</style>").unwrap().1;
    let tags: Vec<&str> = body
        .split('<')
        .skip(1)
        .map(|tag| tag.split_once([' ', '>']).unwrap().0)
        .collect();
    let golden = include_str!("golden.txt");
    assert_eq!(tags.join(" "), golden.trim_end());
}

#[test]
fn names_from_files_do_no_harm() {
    let mut method = MethodBuilder::new("<script>alert(1)</script>");
    method.buffer(32);
    let x = method.input(at(0).named("\"><svg onload=x>&\u{1}"));
    let y = method.output(at(16));
    method.kernel("aten::relu.out", &[x, y, y]);
    let picture = picture(method);
    check_whole(&picture);
    assert!(!picture.contains("<script") && !picture.contains("onload=x>"));
    assert!(!picture.contains('\u{1}'));
}

#[test]
fn what_cannot_be_understood_is_said() {
    let mut method = chain(3);
    method.plan_mut().chains.clear();
    let picture = picture(method);
    check_whole(&picture);
    assert!(picture.contains("not drawn: the method has 0 chains"));
}

#[test]
fn empty_buffers_and_methods_have_pictures() {
    let mut method = MethodBuilder::new("forward");
    method.buffer(0);
    check_whole(&picture(method));
    check_whole(&picture(MethodBuilder::new("forward")));
}
