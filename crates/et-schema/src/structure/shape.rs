//! The tables of both schemas, as far as structural verification needs to know them.

use super::walk::Kind::{self, Number, Numbers, Table, Tables, Text, Union, UnionTag};

/// The fields of a table, in the order of their numbers.
pub(crate) struct Shape {
    pub(super) fields: &'static [Kind],
}

const fn shape(fields: &'static [Kind]) -> Shape {
    Shape { fields }
}

pub(super) static PROGRAM: Shape = shape(&[
    Number(4),
    Tables(&EXECUTION_PLAN),
    Tables(&BLOB),
    Tables(&BLOB),
    Tables(&DATA_SEGMENT),
    Table(&SUBSEGMENT_OFFSETS),
    Tables(&SUBSEGMENT_OFFSETS),
    Tables(&NAMED_DATA),
]);

static EXECUTION_PLAN: Shape = shape(&[
    Text,
    Table(&CONTAINER_METADATA),
    Tables(&VALUE),
    Numbers(4),
    Numbers(4),
    Tables(&CHAIN),
    Tables(&OPERATOR),
    Tables(&BACKEND_DELEGATE),
    Numbers(8),
    Tables(&NON_CONST_BUFFER_DEVICE),
]);

static CONTAINER_METADATA: Shape = shape(&[Text, Text]);

static VALUE: Shape = shape(&[
    UnionTag,
    Union(&[
        &NULL,
        &INT,
        &BOOL,
        &DOUBLE,
        &TENSOR,
        &STRING,
        &INT_LIST,
        &DOUBLE_LIST,
        &BOOL_LIST,
        &TENSOR_LIST,
        &TENSOR_LIST,
    ]),
]);

static NULL: Shape = shape(&[]);
static INT: Shape = shape(&[Number(8)]);
static BOOL: Shape = shape(&[Number(1)]);
static DOUBLE: Shape = shape(&[Number(8)]);
static STRING: Shape = shape(&[Text]);
static INT_LIST: Shape = shape(&[Numbers(8)]);
static DOUBLE_LIST: Shape = shape(&[Numbers(8)]);
static BOOL_LIST: Shape = shape(&[Numbers(1)]);
static TENSOR_LIST: Shape = shape(&[Numbers(4)]);

static TENSOR: Shape = shape(&[
    Number(1),
    Number(4),
    Numbers(4),
    Numbers(1),
    Number(1),
    Number(4),
    Table(&ALLOCATION_DETAILS),
    Number(1),
    Number(1),
    Table(&EXTRA_TENSOR_INFO),
]);

static ALLOCATION_DETAILS: Shape = shape(&[Number(4), Number(4), Number(4)]);
static EXTRA_TENSOR_INFO: Shape = shape(&[Number(8), Text, Number(1), Number(1), Number(1)]);

static CHAIN: Shape = shape(&[
    Numbers(4),
    Numbers(4),
    Tables(&INSTRUCTION),
    Tables(&FRAME_LIST),
]);

static INSTRUCTION: Shape = shape(&[
    UnionTag,
    Union(&[&CALL, &CALL, &INDEX_PAIR, &INDEX_PAIR, &FREE_CALL]),
]);

static CALL: Shape = shape(&[Number(4), Numbers(4)]);
static INDEX_PAIR: Shape = shape(&[Number(4), Number(4)]);
static FREE_CALL: Shape = shape(&[Number(4)]);

static FRAME_LIST: Shape = shape(&[Tables(&FRAME)]);
static FRAME: Shape = shape(&[Text, Number(4), Text, Text]);

static OPERATOR: Shape = shape(&[Text, Text]);
static BACKEND_DELEGATE: Shape = shape(&[Text, Table(&DATA_REFERENCE), Tables(&COMPILE_SPEC)]);
static DATA_REFERENCE: Shape = shape(&[Number(1), Number(4)]);
static COMPILE_SPEC: Shape = shape(&[Text, Numbers(1)]);
static NON_CONST_BUFFER_DEVICE: Shape = shape(&[Number(4), Number(1), Number(1)]);

static BLOB: Shape = shape(&[Numbers(1)]);
static DATA_SEGMENT: Shape = shape(&[Number(8), Number(8)]);
static SUBSEGMENT_OFFSETS: Shape = shape(&[Number(4), Numbers(8)]);
static NAMED_DATA: Shape = shape(&[Text, Number(4)]);

pub(super) static FLAT_TENSOR: Shape =
    shape(&[Number(4), Tables(&DATA_SEGMENT), Tables(&NAMED_TENSOR)]);
static NAMED_TENSOR: Shape = shape(&[Text, Number(4), Table(&TENSOR_LAYOUT)]);
static TENSOR_LAYOUT: Shape = shape(&[Number(1), Numbers(4), Numbers(1)]);
