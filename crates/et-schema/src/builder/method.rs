//! One method.

use alloc::string::ToString;
use alloc::vec;

use crate::owned::{
    BackendDelegate, BackendDelegateDataReference, Chain, CompileSpec, DelegateCall, ExecutionPlan,
    FreeCall, Instruction, JumpFalseCall, KernelCall, MoveCall, NonConstBufferDevice, Operator,
    Tensor, Value,
};

/// Builds a method. Values, operators and delegates are named by the indices that are returned.
#[derive(Debug, Clone)]
pub struct MethodBuilder {
    plan: ExecutionPlan,
}

impl MethodBuilder {
    /// A method without values or instructions, with the reserved planned buffer only.
    pub fn new(name: &str) -> Self {
        let plan = ExecutionPlan {
            name: name.to_string(),
            chains: vec![Chain::default()],
            non_const_buffer_sizes: vec![0],
            ..ExecutionPlan::default()
        };
        Self { plan }
    }

    /// Adds a planned buffer on the CPU and returns its memory id.
    pub fn buffer(&mut self, nbytes: i64) -> u32 {
        let id = index(self.plan.non_const_buffer_sizes.len());
        self.plan.non_const_buffer_sizes.push(nbytes);
        id.cast_unsigned()
    }

    /// Adds a planned buffer on a device and returns its memory id.
    pub fn device_buffer(&mut self, nbytes: i64, device_type: i8, device_index: i8) -> u32 {
        let id = self.buffer(nbytes);
        let entry = NonConstBufferDevice {
            buffer_idx: id.cast_signed(),
            device_type,
            device_index,
        };
        self.plan
            .non_const_buffer_device
            .get_or_insert_default()
            .push(entry);
        id
    }

    /// Adds a value.
    pub fn value(&mut self, value: Value) -> i32 {
        let id = index(self.plan.values.len());
        self.plan.values.push(value);
        id
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, tensor: Tensor) -> i32 {
        self.value(Value::Tensor(tensor))
    }

    /// Adds a tensor that the caller sets.
    pub fn input(&mut self, tensor: Tensor) -> i32 {
        let id = self.tensor(tensor);
        self.plan.inputs.push(id);
        id
    }

    /// Adds a tensor that the caller gets.
    pub fn output(&mut self, tensor: Tensor) -> i32 {
        let id = self.tensor(tensor);
        self.plan.outputs.push(id);
        id
    }

    /// Makes a value one that the caller sets.
    pub fn mark_input(&mut self, value: i32) {
        self.plan.inputs.push(value);
    }

    /// Makes a value one that the caller gets.
    pub fn mark_output(&mut self, value: i32) {
        self.plan.outputs.push(value);
    }

    /// Adds a number.
    pub fn int(&mut self, int: i64) -> i32 {
        self.value(Value::Int(int))
    }

    /// Adds a truth value.
    pub fn bool(&mut self, bool: bool) -> i32 {
        self.value(Value::Bool(bool))
    }

    /// Adds a number.
    pub fn double(&mut self, double: f64) -> i32 {
        self.value(Value::Double(double))
    }

    /// Adds a text.
    pub fn string(&mut self, text: &str) -> i32 {
        self.value(Value::String(text.to_string()))
    }

    /// Adds an absent value.
    pub fn none(&mut self) -> i32 {
        self.value(Value::Null)
    }

    /// Adds a list of numbers: a value for each, and the list of their indices.
    pub fn int_list(&mut self, ints: &[i64]) -> i32 {
        let items = ints.iter().map(|int| i64::from(self.int(*int))).collect();
        self.value(Value::IntList(items))
    }

    /// Adds a list of tensors, by their indices.
    pub fn tensor_list(&mut self, tensors: &[i32]) -> i32 {
        self.value(Value::TensorList(tensors.to_vec()))
    }

    /// Adds an instruction and returns its index.
    pub fn instruction(&mut self, instruction: Instruction) -> i32 {
        if self.plan.chains.is_empty() {
            self.plan.chains.push(Chain::default());
        }
        let instructions = &mut self
            .plan
            .chains
            .last_mut()
            .expect("made above")
            .instructions;
        let id = index(instructions.len());
        instructions.push(instruction);
        id
    }

    /// Adds an operator, if it is not there yet, and returns its index. The overload is what follows
    /// the first dot: `aten::add.out`.
    pub fn operator(&mut self, name: &str) -> i32 {
        let (name, overload) = name.split_once('.').unwrap_or((name, ""));
        let operator = Operator {
            name: name.to_string(),
            overload: overload.to_string(),
        };
        let known = self
            .plan
            .operators
            .iter()
            .position(|known| *known == operator);
        let id = known.unwrap_or(self.plan.operators.len());
        if known.is_none() {
            self.plan.operators.push(operator);
        }
        index(id)
    }

    /// Adds a call of an operator.
    pub fn kernel(&mut self, operator: &str, args: &[i32]) -> i32 {
        let op_index = self.operator(operator);
        self.instruction(Instruction::KernelCall(KernelCall {
            op_index,
            args: args.to_vec(),
        }))
    }

    /// Adds a delegate and returns its index. Its data is in the program:
    /// [`ProgramBuilder::delegate_data`](super::ProgramBuilder::delegate_data).
    pub fn delegate(
        &mut self,
        backend: &str,
        processed: BackendDelegateDataReference,
        compile_specs: &[(&str, &[u8])],
    ) -> i32 {
        let id = index(self.plan.delegates.len());
        let spec = |(key, value): &(&str, &[u8])| CompileSpec {
            key: key.to_string(),
            value: value.to_vec(),
        };
        self.plan.delegates.push(BackendDelegate {
            id: backend.to_string(),
            processed,
            compile_specs: compile_specs.iter().map(spec).collect(),
        });
        id
    }

    /// Adds a call of a delegate.
    pub fn delegate_call(&mut self, delegate_index: i32, args: &[i32]) -> i32 {
        let call = DelegateCall {
            delegate_index,
            args: args.to_vec(),
        };
        self.instruction(Instruction::DelegateCall(call))
    }

    /// Adds an instruction that makes one value the same as another.
    pub fn move_value(&mut self, move_from: i32, move_to: i32) -> i32 {
        self.instruction(Instruction::MoveCall(MoveCall { move_from, move_to }))
    }

    /// Adds an instruction that goes on elsewhere if a value is false.
    pub fn jump_false(&mut self, cond_value_index: i32, destination_instruction: i32) -> i32 {
        let jump = JumpFalseCall {
            cond_value_index,
            destination_instruction,
        };
        self.instruction(Instruction::JumpFalseCall(jump))
    }

    /// Adds an instruction that gives up the memory of a tensor.
    pub fn free(&mut self, value_index: i32) -> i32 {
        self.instruction(Instruction::FreeCall(FreeCall { value_index }))
    }

    /// The method as it is, to be changed at will.
    pub fn plan_mut(&mut self) -> &mut ExecutionPlan {
        &mut self.plan
    }

    /// The finished method.
    pub fn finish(self) -> ExecutionPlan {
        self.plan
    }
}

/// The index of the next entry. The format has 31 bits; what is past them can't be written anyway.
fn index(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}
