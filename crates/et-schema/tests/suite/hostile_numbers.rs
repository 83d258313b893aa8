//! Sizes and offsets that wrap, overflow or lead outside (group B of the known faults).

use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::{DataSegment, Tensor};
use et_schema::summary::ProgramSummary;
use et_schema::{Dynamism, ParsedProgram, ScalarType};

use crate::base::{
    base, check_method, check_refused, check_warned, load, matrix, method, program, weight_program,
};
use crate::measure::cheap;

/// BASE with one more tensor, which must be refused.
#[track_caller]
fn check_tensor(tensor: Tensor, id: &str, field: &str) {
    let mut method = method();
    method.tensor(tensor);
    check_method(method, id, &format!("values[5].Tensor.{field}"));
}

#[track_caller]
fn check_overflow(sizes: &[i32]) {
    check_tensor(
        Tensor::new(ScalarType::Float, sizes),
        "schema.overflow",
        "sizes",
    );
}

#[test]
fn b1_sizes_whose_product_wraps_are_refused() {
    check_overflow(&[65536, 65536, 65536, 65536]);
    check_overflow(&[i32::MAX, i32::MAX, 4]);
    check_overflow(&[i32::MAX; 16]);
    check_overflow(&[i32::MAX, i32::MAX]);
    check_overflow(&[0, i32::MAX, i32::MAX, i32::MAX]);
}

#[test]
fn b3_planned_offsets_that_wrap_are_refused() {
    for offset in [0xFFFF_FFFF_FFFF_FFF0, u64::MAX - 23, u64::MAX - 3] {
        check_tensor(
            matrix().planned(1, offset),
            "schema.out-of-bounds",
            "allocation_info",
        );
    }
}

#[test]
fn planned_tensors_end_where_their_buffer_does() {
    let mut exact = method();
    exact.tensor(matrix().planned(1, 72));
    assert!(load(&program(exact).to_bytes().unwrap()).is_ok());
    check_tensor(
        matrix().planned(1, 76),
        "schema.out-of-bounds",
        "allocation_info",
    );
    check_tensor(
        matrix().planned(1, 1 << 32),
        "schema.out-of-bounds",
        "allocation_info",
    );
}

#[test]
fn planned_offsets_are_multiples_of_the_element_size() {
    check_tensor(
        matrix().planned(1, 2),
        "schema.alignment",
        "allocation_info.memory_offset_low",
    );
    let mut bytes = method();
    bytes.tensor(Tensor::new(ScalarType::Byte, &[3]).planned(1, 1));
    bytes.tensor(Tensor::new(ScalarType::Float, &[0]).planned(1, 1));
    assert!(load(&program(bytes).to_bytes().unwrap()).is_ok());
}

#[test]
fn memory_ids_name_planned_buffers() {
    for memory_id in [0, 2, u32::MAX] {
        let tensor = matrix().planned(memory_id, 0);
        check_tensor(
            tensor,
            "schema.index-out-of-range",
            "allocation_info.memory_id",
        );
    }
}

#[test]
fn b4_forged_list_lengths_are_refused_before_allocating() {
    let mut lists = method();
    lists.tensor_list(&[0, 1, 3]);
    let file = program(lists).to_bytes().unwrap();
    let list = [3u32, 0, 1, 3].map(u32::to_le_bytes).concat();
    let at = file.windows(16).position(|seen| seen == list).unwrap();
    let mut forged = file.clone();
    forged[at..at + 4].copy_from_slice(&0x2000_0000u32.to_le_bytes());
    let path = "execution_plan[0].values[5].TensorList.items";
    check_refused(&forged, "schema.flatbuffer-out-of-bounds", path);
}

#[test]
fn b7_constant_offsets_that_wrap_are_refused() {
    for offset in [u64::MAX - 3, u64::MAX, 49] {
        let mut program = weight_program();
        program
            .program_mut()
            .constant_segment
            .as_mut()
            .unwrap()
            .offsets[1] = offset;
        let file = program.to_bytes().unwrap();
        check_refused(&file, "schema.out-of-bounds", "constant_segment.offsets[1]");
    }
}

#[test]
fn constants_end_where_their_segment_does() {
    for offset in [1, 48] {
        let mut program = weight_program();
        program
            .program_mut()
            .constant_segment
            .as_mut()
            .unwrap()
            .offsets[1] = offset;
        let file = program.to_bytes().unwrap();
        let path = "execution_plan[0].values[5].Tensor.data_buffer_idx";
        check_refused(&file, "schema.out-of-bounds", path);
    }
}

#[test]
fn inline_constants_are_as_large_as_their_tensors() {
    let mut program = ProgramBuilder::new();
    let data = program.inline_constant(&[0; 23]);
    let mut method = method();
    method.tensor(matrix().with_data(data));
    program.method(method);
    let path = "execution_plan[0].values[5].Tensor.data_buffer_idx";
    check_refused(&program.to_bytes().unwrap(), "schema.out-of-bounds", path);
}

#[test]
fn b12_initial_data_offsets_that_wrap_are_refused() {
    let mut program = ProgramBuilder::new();
    let data = program.initial_data(&[0; 256]);
    let mut method = method();
    method.tensor(matrix().planned(1, 0).with_data(data));
    program.method(method);
    assert!(load(&program.to_bytes().unwrap()).is_ok());
    for (offset, id, path) in [
        (
            u64::MAX - 23,
            "schema.out-of-bounds",
            "mutable_data_segments[0].offsets[1]",
        ),
        (
            240,
            "schema.out-of-bounds",
            "execution_plan[0].values[5].Tensor.data_buffer_idx",
        ),
    ] {
        let mut wrong = program.clone();
        let lists = wrong.program_mut().mutable_data_segments.as_mut().unwrap();
        lists[0].offsets[1] = offset;
        check_refused(&wrong.to_bytes().unwrap(), id, path);
    }
}

#[test]
fn b_08_initial_data_comes_from_the_tensors_own_list() {
    let mut program = ProgramBuilder::new();
    let data = program.initial_data(&[0; 24]);
    let mut method = method();
    let mut tensor = matrix().planned(1, 0).with_data(data);
    tensor
        .extra_tensor_info
        .get_or_insert_default()
        .mutable_data_segments_idx = 1;
    method.tensor(tensor);
    program.method(method);
    let path = "execution_plan[0].values[5].Tensor.data_buffer_idx";
    check_refused(
        &program.to_bytes().unwrap(),
        "schema.index-out-of-range",
        path,
    );
}

#[test]
fn b10_the_bound_of_a_dynamic_input_may_overflow() {
    let huge = || Tensor::new(ScalarType::Float, &[i32::MAX, i32::MAX, 4096]);
    let mut dynamic = method();
    dynamic.input(huge().dynamic(Dynamism::DynamicBound));
    let path = "execution_plan[0].values[5].Tensor.sizes";
    check_warned(
        &program(dynamic).to_bytes().unwrap(),
        &[("schema.overflow", path)],
    );

    let mut planned = method();
    planned.input(huge().dynamic(Dynamism::DynamicBound).planned(1, 0));
    check_method(planned, "schema.overflow", "values[5].Tensor.sizes");
    let mut fixed = method();
    fixed.input(huge());
    check_method(fixed, "schema.overflow", "values[5].Tensor.sizes");
    check_tensor(
        huge().dynamic(Dynamism::DynamicBound),
        "schema.overflow",
        "sizes",
    );
}

#[test]
fn b_33_a_dynamic_input_is_excused_for_its_bound_only() {
    let mut negative = method();
    negative.input(Tensor::new(ScalarType::Float, &[2, -3]).dynamic(Dynamism::DynamicBound));
    check_method(negative, "schema.negative", "values[5].Tensor.sizes[1]");
}

#[test]
fn b16_and_b18_large_but_possible_sizes_are_shown_exactly() {
    let mut large = method();
    let tensor = Tensor::new(ScalarType::Byte, &[65536, 65536]);
    large.input(tensor.named("four_gib"));
    large.input(Tensor::new(ScalarType::Byte, &[1 << 20, 1 << 20]).named("one_tib"));
    let file = program(large).to_bytes().unwrap();
    assert!(load(&file).is_ok());
    let summary = ProgramSummary::new(&ParsedProgram::from_file_bytes(&file).unwrap());
    let named = &summary.methods[0].named_tensors;
    let sizes = named.iter().map(|value| value.tensor.as_ref().unwrap());
    let sizes: Vec<_> = sizes
        .map(|tensor| (tensor.numel.unwrap(), tensor.nbytes.unwrap()))
        .collect();
    assert_eq!(sizes, [(4_294_967_296, 4_294_967_296), (1 << 40, 1 << 40)]);
}

#[test]
fn b19_absurd_buffers_are_the_loaders_business_and_cost_us_nothing() {
    for nbytes in [1 << 40, 1 << 62, i64::MAX] {
        let mut large = method();
        large.buffer(nbytes);
        large.device_buffer(nbytes, 1, 0);
        assert!(load(&program(large).to_bytes().unwrap()).is_ok());
    }
}

#[test]
fn d6_negative_sizes_are_refused() {
    for (sizes, field) in [(vec![0, -1], "[1]"), (vec![-1, 64], "[0]")] {
        let mut negative = MethodBuilder::new("forward");
        negative.plan_mut().non_const_buffer_sizes = sizes;
        check_method(
            negative,
            "schema.negative",
            &format!("non_const_buffer_sizes{field}"),
        );
    }
    check_tensor(
        Tensor::new(ScalarType::Float, &[2, -3]),
        "schema.negative",
        "sizes[1]",
    );
}

#[test]
fn b_28_segments_lie_in_the_files_segment_data() {
    let file = || {
        let mut program = weight_program();
        program.segment(&[2; 16]);
        program.build().unwrap()
    };
    let place = |offset, size| DataSegment { offset, size };
    for (segment, id, path) in [
        (
            place(u64::MAX - 7, 16),
            "schema.out-of-bounds",
            "segments[1]",
        ),
        (place(144, 16), "schema.out-of-bounds", "segments[1]"),
        (place(0, u64::MAX), "schema.out-of-bounds", "segments[1]"),
        (place(40, 16), "schema.overlap", "segments[1]"),
        (place(0, 1), "schema.overlap", "segments[0]"),
    ] {
        let bytes = patched_segment(&file().to_bytes().unwrap(), 1, segment);
        check_refused(&bytes, id, path);
    }
}

/// The file with another entry in its segment table, which the writer would refuse.
fn patched_segment(file: &[u8], index: usize, segment: DataSegment) -> Vec<u8> {
    let program = ParsedProgram::from_file_bytes(file).unwrap();
    let old = program.root().segments().nth(index).unwrap();
    let pattern = [old.offset, old.size].map(u64::to_le_bytes).concat();
    let at = file
        .windows(16)
        .position(|seen| seen == pattern)
        .expect("size follows offset");
    let mut patched = file.to_vec();
    patched[at..at + 16].copy_from_slice(
        &[segment.offset, segment.size]
            .map(u64::to_le_bytes)
            .concat(),
    );
    patched
}

#[test]
fn b_28_segments_need_a_header() {
    let mut tables = crate::base::tables();
    let mut segment = et_schema::raw::pte::DataSegmentT::default();
    segment.size = 8;
    tables.segments.get_or_insert_default().push(segment);
    let file = et_schema::raw::encode_program(&tables);
    check_refused(&file, "schema.out-of-bounds", "segments[1]");
    assert!(load(&base()).is_ok());
}

/// A method that names one value as each of its many inputs and outputs, and what summaries show of that.
#[track_caller]
fn check_summary(mut method: MethodBuilder, value: i32) {
    const TIMES: usize = 20_000;
    for _ in 0..TIMES {
        method.mark_input(value);
        method.mark_output(value);
    }
    let file = program(method).to_bytes().unwrap();
    let parsed = ParsedProgram::from_file_bytes(&file).unwrap();
    let summary = cheap(|| ProgramSummary::new(&parsed));
    let [method] = summary.methods.as_slice() else {
        panic!("{} methods", summary.methods.len());
    };
    assert_eq!(method.num_outputs, TIMES + 1);
    let shown = method.inputs.len() + method.outputs.len() + method.named_tensors.len();
    assert!(shown > 4 && shown < TIMES, "{shown}");
    let left_out = usize::try_from(method.num_values_left_out).unwrap();
    assert_eq!(shown + left_out, method.num_inputs + method.num_outputs);
}

#[test]
fn values_that_are_named_many_times_are_described_in_proportion_to_the_file() {
    let mut text = method();
    let value = text.string(&"x".repeat(1 << 18));
    check_summary(text, value);
    let mut dims = method();
    let value = dims.tensor(Tensor::new(ScalarType::Float, &vec![1; 1 << 16]));
    check_summary(dims, value);
    let mut small = method();
    let value = small.int(1);
    check_summary(small, value);
}

#[test]
fn summaries_of_sound_files_leave_nothing_out() {
    let file = weight_program().to_bytes().unwrap();
    let summary = ProgramSummary::new(&ParsedProgram::from_file_bytes(&file).unwrap());
    assert_eq!(summary.methods[0].num_values_left_out, 0);
    assert_eq!(summary.methods[0].inputs.len(), 2);
}
