//! The backend whose blobs are programs: a delegate that runs a complete `.pte` on the CPU.

use et_kernel::{
    Arguments, Backend, BackendError, Delegate, EValue, Environment, InitContext, KernelContext,
    KernelError, SharedBytes, TensorId, TensorMeta,
};

use crate::data::DataFiles;
use crate::load::{self, LoadOptions};
use crate::{Error, ErrorKind, Method, Program, Value};

/// Runs delegates whose blob is a program with one method, `forward`, made of portable operators.
///
/// The delegate's arguments are that method's inputs followed by its outputs. Tensors on a device are fetched before the run
/// and stored after it, through the device's allocator, so the backend stands in for one that computes on any device. The
/// compile spec `nested_in_named_data` says that the blob is `key:` and the name of the program among the named data.
#[derive(Debug)]
pub struct NestedProgramBackend;

/// The backend's id.
const ID: &str = "NestedProgramBackend";
/// The method that is run.
const METHOD: &str = "forward";

et_kernel::link_backend!("et-module", &NestedProgramBackend);

impl Backend for NestedProgramBackend {
    fn id(&self) -> &str {
        ID
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        blob: SharedBytes,
    ) -> Result<Box<dyn Delegate>, BackendError> {
        let bytes = match context.compile_spec("nested_in_named_data") {
            Some(_) => named_program(context, &blob)?,
            None => blob,
        };
        // What happens inside is the delegate's own; the observer hears of the delegate as a whole.
        let mut environment: Environment = context.environment.clone();
        environment.hook = None;
        let load = || {
            let options = LoadOptions::nested(context.limits, bytes.len() as u64)?;
            let program = Program::from_bytes(bytes)?;
            load::method(
                &program.method_meta(METHOD)?,
                &environment,
                &DataFiles::new(),
                context.named_data,
                options,
                &mut None,
            )
        };
        let method = load().map_err(|error: Error| BackendError::other(error))?;
        let takes = |input| {
            method
                .meta()
                .input(input)
                .map(|info| info.tensor.map(|tensor| tensor.meta))
        };
        let inputs: Result<_, Error> = (0..method.num_inputs()).map(takes).collect();
        Ok(Box::new(NestedProgram {
            inputs: inputs.map_err(BackendError::other)?,
            method,
        }))
    }
}

/// The program that `key:NAME` stands for.
fn named_program(context: &InitContext<'_>, reference: &[u8]) -> Result<SharedBytes, BackendError> {
    let text = String::from_utf8_lossy(reference);
    let Some(name) = text.strip_prefix("key:") else {
        return Err(BackendError::InvalidBlob(format!(
            "the blob is {text:?}, and must be `key:` and a name"
        )));
    };
    let missing = || BackendError::InvalidBlob(format!("there is no named data `{name}`"));
    context.named_data.bytes(name)?.ok_or_else(missing)
}

struct NestedProgram {
    method: Method,
    /// What the program takes; `None` for an input that is not a tensor.
    inputs: Vec<Option<TensorMeta>>,
}

impl Delegate for NestedProgram {
    fn execute(&mut self, context: &mut KernelContext<'_>) -> Result<(), KernelError> {
        let (inputs, outputs) = (self.method.num_inputs(), self.method.num_outputs());
        let all = inputs.saturating_add(outputs);
        context.expect_arguments(all..=all)?;
        for input in 0..inputs {
            self.fetch(context, input)?;
        }
        // Whoever ends the outer run ends this one too.
        self.method.follow(context.interrupt());
        self.method.execute().map_err(|error| match error.kind() {
            ErrorKind::Cancelled => KernelError::Interrupted,
            _ => KernelError::other(error),
        })?;
        for output in 0..outputs {
            self.store(context, inputs.saturating_add(output), output)?;
        }
        Ok(())
    }

    fn reset_state(&mut self) -> Result<(), KernelError> {
        self.method.reset_state().map_err(KernelError::other)
    }
}

impl NestedProgram {
    fn fetch(&mut self, context: &KernelContext<'_>, input: usize) -> Result<(), KernelError> {
        if let EValue::Tensor(_) = context.value(input)? {
            let id = context.tensor(input)?;
            self.expect_alike(context, id, input)?;
            let bytes = self
                .method
                .input_bytes_mut(input, context.meta(id).sizes())
                .map_err(KernelError::other)?;
            return context.read_bytes(id, bytes);
        }
        let value = match context.value(input)? {
            EValue::Int(value) => Value::Int(*value),
            EValue::Double(value) => Value::Double(*value),
            EValue::Bool(value) => Value::Bool(*value),
            EValue::Str(text) => Value::Str(text.as_ref().to_owned()),
            EValue::None => Value::None,
            other => {
                let (expected, found) = ("a tensor or a number", other.kind());
                return Err(KernelError::ArgumentKind {
                    argument: input,
                    expected,
                    found,
                });
            }
        };
        self.method
            .set_input(input, &value)
            .map_err(KernelError::other)
    }

    /// The bytes are moved as they are, so both sides must mean the same by them.
    fn expect_alike(
        &self,
        context: &KernelContext<'_>,
        id: TensorId,
        input: usize,
    ) -> Result<(), KernelError> {
        let outer = context.meta(id);
        let takes = self.inputs.get(input).and_then(Option::as_ref);
        let alike = |inner: &TensorMeta| {
            inner.dtype() == outer.dtype() && inner.dim_order() == outer.dim_order()
        };
        if takes.is_some_and(alike) {
            return Ok(());
        }
        Err(KernelError::invalid(format!(
            "argument {input} is {outer:?}, and the nested program takes {takes:?}"
        )))
    }

    fn store(
        &self,
        context: &mut KernelContext<'_>,
        argument: usize,
        output: usize,
    ) -> Result<(), KernelError> {
        match self.method.output(output).map_err(KernelError::other)? {
            EValue::Tensor(tensor) => {
                let id = context.tensor(argument)?;
                let outer = context.meta(id);
                if outer.dtype() != tensor.dtype() || outer.dim_order() != tensor.meta().dim_order()
                {
                    let given = tensor.meta();
                    let message = format!(
                        "argument {argument} is {outer:?}, and the nested program gives {given:?}"
                    );
                    return Err(KernelError::invalid(message));
                }
                context.resize(id, tensor.sizes())?;
                context.write_bytes(id, tensor.bytes()?)
            }
            EValue::Int(value) => context.set(argument, EValue::Int(*value)),
            EValue::Double(value) => context.set(argument, EValue::Double(*value)),
            EValue::Bool(value) => context.set(argument, EValue::Bool(*value)),
            other => {
                let (expected, found) = ("a tensor or a number", other.kind());
                Err(KernelError::ArgumentKind {
                    argument,
                    expected,
                    found,
                })
            }
        }
    }
}
