//! A program with its loaded methods.

use std::collections::BTreeMap;
use std::path::Path;

use et_device::DeviceMap;
use et_kernel::{Environment, SizeLimits};
use et_memory::{Budget, MemoryPlan, PlannedMemory};

use crate::data::{DataFile, DataFiles, NoData};
use crate::error::ErrorKind;
use crate::load::{self, Arenas, InitialisedSlots, LoadOptions};
use crate::value::Value;
use crate::{Error, Method, MethodMeta, Program};

/// A program, its data files, and the methods that were loaded from it, each with memory of its own (or all with shared
/// arenas). Methods are loaded when they are first used.
///
/// ```
/// use et_kernel::Tensor;
/// use et_module::Module;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/add/model.pte");
/// # use et_ops as _;
/// let mut module = Module::open(path)?;
/// let ones = || Tensor::from_slice(&[1.0f32; 6], &[2, 3]).map(et_module::Value::from);
/// let outputs = module.forward(&[ones()?, ones()?])?;
/// assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>()?, [2.0; 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Module {
    program: Program,
    environment: Environment,
    data: DataFiles,
    options: ModuleOptions,
    methods: BTreeMap<String, Method>,
    shared: Option<Shared>,
}

/// How a module loads its methods.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModuleOptions {
    /// Whether all methods use one set of planned buffers in turn: less memory, and state that they have in common.
    pub share_arenas: bool,
    /// How many bytes of planned memory each method may use, per device.
    pub budget: Budget,
    /// How many instructions one run may take.
    pub instruction_limit: u64,
    /// How large each method may be.
    pub size: SizeLimits,
}

impl Default for ModuleOptions {
    fn default() -> Self {
        let LoadOptions {
            budget,
            instruction_limit,
            size,
            ..
        } = LoadOptions::default();
        Self {
            share_arenas: false,
            budget,
            instruction_limit,
            size,
        }
    }
}

/// Arenas for all methods. One method has them at a time; `arenas` is empty while one does.
#[derive(Debug)]
struct Shared {
    plan: MemoryPlan,
    arenas: Option<Arenas>,
}

impl Module {
    /// A module for the program in a file, with everything that is linked into this process.
    ///
    /// # Errors
    /// As [`Program::open`]; [`ErrorKind::Duplicate`] if two linked crates offer the same operator or backend.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self::new(Program::open(path)?, Environment::linked()?))
    }

    /// A module for `program`, loading its methods with `environment`.
    pub fn new(program: Program, environment: Environment) -> Self {
        Self {
            program,
            environment,
            data: DataFiles::new(),
            options: ModuleOptions::default(),
            methods: BTreeMap::new(),
            shared: None,
        }
    }

    /// Adds a data file. Only methods loaded later see it.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateData`].
    pub fn add_data(&mut self, file: DataFile) -> Result<(), Error> {
        self.data.add(file)
    }

    /// Sets how methods are loaded, for methods loaded later.
    pub fn set_options(&mut self, options: ModuleOptions) {
        self.options = options;
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What methods are loaded with.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What is known of a method without loading it.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchMethod`].
    pub fn method_meta(&self, name: &str) -> Result<MethodMeta, Error> {
        self.program.method_meta(name)
    }

    /// Whether a method is loaded.
    pub fn is_loaded(&self, name: &str) -> bool {
        self.methods.contains_key(name)
    }

    /// A method, loaded if it was not.
    ///
    /// # Errors
    /// As [`Program::load_method`].
    pub fn method(&mut self, name: &str) -> Result<&mut Method, Error> {
        if !self.methods.contains_key(name) {
            let loaded = self.load(name)?;
            self.methods.insert(name.to_owned(), loaded);
        }
        self.lend_arenas(name)?;
        let available = || self.program.method_names().map(str::to_owned).collect();
        let missing = ErrorKind::NoSuchMethod {
            name: name.to_owned(),
            available: available(),
        };
        self.methods.get_mut(name).ok_or_else(|| missing.into())
    }

    /// Unloads a method and gives its memory back. Says whether it was loaded. Shared arenas stay.
    ///
    /// # Errors
    /// If the shared arenas cannot be kept.
    pub fn unload_method(&mut self, name: &str) -> Result<bool, Error> {
        let Some(mut method) = self.methods.remove(name) else {
            return Ok(false);
        };
        method.reset_execution();
        if let Some(shared) = &mut self.shared
            && method.shares_arenas()
            && method.is_attached()
        {
            shared.arenas = Some(method.detach()?);
        }
        Ok(true)
    }

    /// Loads a method in its own way: with planned memory of the caller's, say, or another budget than the module's.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyLoaded`], and as [`Program::load_method`].
    pub fn load_method(&mut self, name: &str, options: LoadOptions) -> Result<&mut Method, Error> {
        if self.is_loaded(name) {
            return Err(Error::from(ErrorKind::AlreadyLoaded).in_method(name));
        }
        let meta = self.program.method_meta(name)?;
        let loaded = self.load_with(&meta, options, &mut None)?;
        Ok(self.methods.entry(name.to_owned()).or_insert(loaded))
    }

    /// Unloads every method and gives all memory back, shared arenas too.
    pub fn unload(&mut self) {
        self.methods.clear();
        self.shared = None;
    }

    /// Runs a method: sets its first inputs to `inputs`, executes it, and copies its outputs to the host. Inputs that are not
    /// given keep what they were set to before.
    ///
    /// # Errors
    /// As [`Method::set_input`] and [`Method::execute`]; [`ErrorKind::TooManyInputs`] before anything is set.
    pub fn execute(&mut self, name: &str, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.run(name, inputs, Method::output_to_host)
    }

    /// As [`execute`](Self::execute), but the outputs are copies on the devices where the method made them.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_in_place(&mut self, name: &str, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.run(name, inputs, Method::output_where_it_is)
    }

    fn run(
        &mut self,
        name: &str,
        inputs: &[Value],
        output: fn(&Method, usize) -> Result<Value, Error>,
    ) -> Result<Vec<Value>, Error> {
        let method = self.method(name)?;
        let (expected, found) = (method.num_inputs(), inputs.len());
        if found > expected {
            return Err(Error::from(ErrorKind::TooManyInputs { expected, found }).in_method(name));
        }
        for (index, input) in inputs.iter().enumerate() {
            method.set_input(index, input)?;
        }
        method.execute()?;
        (0..method.num_outputs())
            .map(|index| output(method, index))
            .collect()
    }

    /// Runs the method `forward`.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn forward(&mut self, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.execute("forward", inputs)
    }

    fn load(&mut self, name: &str) -> Result<Method, Error> {
        let options = LoadOptions::default()
            .with_budget(self.options.budget.clone())
            .with_instruction_limit(self.options.instruction_limit)
            .with_size_limits(self.options.size.clone());
        let meta = self.program.method_meta(name)?;
        if !self.options.share_arenas {
            return self.load_with(&meta, options, &mut None);
        }
        let plan = meta.memory_plan(&self.environment.device_map)?;
        if !self.shared_plan()?.covers(&plan) {
            tracing::warn!(
                method = name,
                "its planned buffers are on other devices; it keeps memory of its own"
            );
            return self.load_with(&meta, options, &mut None);
        }
        let mut arenas = Some(self.take_arenas()?);
        let loaded = self.load_with(&meta, options, &mut arenas);
        if let Some(shared) = &mut self.shared {
            // Still here if the load failed; with the method if not.
            shared.arenas = arenas;
        }
        loaded
    }

    fn load_with(
        &self,
        meta: &MethodMeta,
        options: LoadOptions,
        arenas: &mut Option<Arenas>,
    ) -> Result<Method, Error> {
        load::method(
            meta,
            &self.environment,
            &self.data,
            &NoData,
            options,
            arenas,
        )
    }

    /// The plan of the shared arenas: per memory id the largest size that any method asks for.
    fn shared_plan(&mut self) -> Result<&MemoryPlan, Error> {
        if self.shared.is_none() {
            let mut plan = MemoryPlan::default();
            for name in self.program.method_names() {
                let map: &DeviceMap = &self.environment.device_map;
                plan = plan.merge(&self.program.method_meta(name)?.memory_plan(map)?);
            }
            let memory =
                PlannedMemory::allocate(&plan, &self.environment.devices, &self.options.budget)?;
            let arenas = Some(Arenas {
                memory,
                initialised: InitialisedSlots::new(),
            });
            self.shared = Some(Shared { plan, arenas });
        }
        Ok(self
            .shared
            .as_ref()
            .map(|shared| &shared.plan)
            .expect("made just above"))
    }

    /// The shared arenas, from wherever they are.
    fn take_arenas(&mut self) -> Result<Arenas, Error> {
        if let Some(arenas) = self.shared.as_mut().and_then(|shared| shared.arenas.take()) {
            return Ok(arenas);
        }
        let holder = self
            .methods
            .values_mut()
            .find(|method| method.shares_arenas() && method.is_attached());
        match holder {
            Some(method) => method.detach(),
            None => Err(ErrorKind::NotSupported {
                what: "sharing arenas that are nowhere".to_owned(),
            }
            .into()),
        }
    }

    fn lend_arenas(&mut self, name: &str) -> Result<(), Error> {
        let needs = self
            .methods
            .get(name)
            .is_some_and(|method| method.shares_arenas() && !method.is_attached());
        if !needs {
            return Ok(());
        }
        let arenas = self.take_arenas()?;
        let method = self.methods.get_mut(name).expect("found just above");
        let attached = method.attach(arenas);
        if attached.is_err()
            && method.is_attached()
            && let Some(shared) = &mut self.shared
        {
            shared.arenas = Some(method.detach()?);
        }
        attached
    }
}
