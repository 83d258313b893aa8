//! Options whose text has a form of its own: devices, maps, tolerances.

use et_device::{Device, DeviceMap, DeviceType};
use et_planner::Alignment;
use et_schema::ScalarType;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// How many devices are simulated where no number is given.
const DEFAULT_COUNT: u8 = 2;

/// `--simulate`: which device type, and how many devices of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Simulate {
    /// The type whose place is taken.
    pub(crate) device_type: DeviceType,
    /// How many devices there are.
    pub(crate) count: u8,
}

/// Reads `cuda` or `cuda:COUNT`.
pub(crate) fn parse_simulate(text: &str) -> Result<Simulate, String> {
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name, parse_count(count)?),
        None => (text, DEFAULT_COUNT),
    };
    match name.parse::<Device>() {
        Ok(device) if device.is_cpu() => Err("host memory is not simulated".into()),
        Ok(device) => Ok(Simulate {
            device_type: device.device_type(),
            count,
        }),
        // What a device's own error lists is more than can be simulated, and with indices.
        Err(_) => Err(format!(
            "`{name}` cannot be simulated: expected cuda or cuda:COUNT"
        )),
    }
}

fn parse_count(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(count @ 1..=128) => Ok(count),
        _ => Err(format!("`{text}` is no number of devices from 1 to 128")),
    }
}

/// Gives options whose value may be left out their value, so that a file behind them is not taken for one.
pub(crate) fn complete(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.peekable();
    let mut complete = Vec::new();
    while let Some(argument) = arguments.next() {
        let next = arguments.peek();
        let bare = match argument.to_str() {
            Some("--simulate") if !next.is_some_and(may_be_value) => {
                Some(format!("--simulate=cuda:{DEFAULT_COUNT}"))
            }
            Some(skip @ ("--skip-h2d" | "--skip-d2h")) if next.is_some_and(is_file_or_option) => {
                Some(format!("{skip}={ALL_METHODS}"))
            }
            _ => None,
        };
        complete.push(bare.map_or(argument, OsString::from));
    }
    complete
}

/// Whether an argument is meant as the value of the option before it, even if it is a wrong one.
fn may_be_value(argument: &OsString) -> bool {
    let is_device = argument
        .to_str()
        .is_some_and(|text| parse_simulate(text).is_ok());
    is_device || !is_file_or_option(argument)
}

fn is_file_or_option(argument: &OsString) -> bool {
    let path = Path::new(argument);
    let is_option = argument.as_encoded_bytes().starts_with(b"-");
    let is_program = path.extension().is_some_and(|extension| extension == "pte");
    is_option || is_program || path.exists()
}

/// What stands for all methods where no name is given: no argument of a process can hold it.
pub(crate) const ALL_METHODS: &str = "\0";

/// `--skip-h2d` and its like: which methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Methods {
    /// All of them.
    All,
    /// The one of that name.
    Named(String),
}

impl Methods {
    /// The name, if one was given.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Named(name) => Some(name),
        }
    }
}

impl FromStr for Methods {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            ALL_METHODS => Self::All,
            name => Self::Named(name.to_owned()),
        })
    }
}

/// A `--target`: the device of one delegate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The method that has the delegate.
    pub(crate) method: String,
    /// The number of the delegate in the method.
    pub(crate) delegate: u32,
    /// Where it runs.
    pub(crate) device: Device,
}

/// Reads `METHOD:INDEX=DEVICE`, such as `forward:0=cuda:1`.
pub(crate) fn parse_target(text: &str) -> Result<Target, String> {
    let form = "expected METHOD:INDEX=DEVICE, such as forward:0=cuda:1";
    let (place, device) = text.rsplit_once('=').ok_or(form)?;
    let (method, delegate) = place.rsplit_once(':').ok_or(form)?;
    let parsed = device.to_ascii_lowercase().parse();
    Ok(Target {
        method: method.into(),
        delegate: delegate
            .parse()
            .map_err(|_| format!("`{delegate}` is no number of a delegate"))?,
        device: parsed.map_err(|error| format!("`{device}`: {error}"))?,
    })
}

/// A positive number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is no time in seconds"))
}

/// An alignment of places in a planned buffer.
pub(crate) fn parse_alignment(text: &str) -> Result<Alignment, String> {
    let alignment = text.parse().ok().filter(|&nbytes| nbytes <= 4096);
    alignment
        .and_then(|nbytes| Alignment::new(nbytes).ok())
        .ok_or_else(|| format!("`{text}` is no power of two from 16 to 4096"))
}

/// One `--device-map`: `cuda:1=cuda:0`.
pub(crate) fn parse_mapping(text: &str) -> Result<(Device, Device), String> {
    let (from, to) = text
        .split_once('=')
        .ok_or("expected FROM=TO, such as cuda:1=cuda:0")?;
    let device = |text: &str| text.parse().map_err(|error| format!("`{text}`: {error}"));
    Ok((device(from)?, device(to)?))
}

/// The map of all `--device-map` options.
pub(crate) fn device_map(rules: &[(Device, Device)]) -> DeviceMap {
    let mut map = DeviceMap::new();
    for (from, to) in rules {
        map.insert(*from, *to);
    }
    map
}

/// One `--tol`: `FLOAT=1e-3`.
pub(crate) fn parse_tolerance(text: &str) -> Result<(ScalarType, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected TYPE=NUMBER, such as FLOAT=1e-3")?;
    let scalar_type = ScalarType::from_name(&name.to_ascii_uppercase())
        .ok_or_else(|| format!("`{name}` is no scalar type"))?;
    match value.parse() {
        Ok(tolerance) if tolerance >= 0.0 => Ok((scalar_type, tolerance)),
        _ => Err(format!("`{value}` is no tolerance")),
    }
}

/// Bytes with an optional unit: `4096`, `64K`, `2G`.
pub(crate) fn parse_nbytes(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit
        .to_ascii_uppercase()
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{unit}` is no unit: use K, M, G or T")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is no number of bytes"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(arguments: &[&str]) -> Vec<String> {
        super::complete(arguments.iter().map(|argument| argument.into()))
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_device_type_is_simulated_with_two_devices_by_default() {
        let simulate = |count| Simulate {
            device_type: DeviceType::CUDA,
            count,
        };
        assert_eq!(parse_simulate("cuda"), Ok(simulate(2)));
        assert_eq!(parse_simulate("CUDA:1"), Ok(simulate(1)));
        for text in ["cpu", "cuda:0", "cuda:129", "cuda:x", "model.pte", ""] {
            assert!(parse_simulate(text).is_err(), "{text}");
        }
        let found = parse_simulate("gpu").unwrap_err();
        assert!(found.ends_with("expected cuda or cuda:COUNT"), "{found}");
        assert!(
            !found.contains("cpu") && !found.contains("INDEX"),
            "{found}"
        );
    }

    #[test]
    fn a_bare_simulate_does_not_eat_the_file() {
        assert_eq!(
            complete(&["run", "--simulate", "m.pte"])[1],
            "--simulate=cuda:2"
        );
        assert_eq!(
            complete(&["run", "m.pte", "--simulate"])[2],
            "--simulate=cuda:2"
        );
        let unchanged = ["run", "--simulate", "cuda:3", "m.pte"];
        assert_eq!(complete(&unchanged), unchanged);
        // A mistake stays one.
        for wrong in ["cuda:0", "gpu"] {
            let mistake = ["run", "--simulate", wrong, "m.pte"];
            assert_eq!(complete(&mistake), mistake);
        }
        let equals = ["run", "--simulate=cuda", "m.pte"];
        assert_eq!(complete(&equals), equals);
    }

    #[test]
    fn a_bare_skip_does_not_eat_the_file() {
        let bare = ["plan", "--skip-h2d", "m.pte", "--skip-d2h", "-o", "x"];
        assert_eq!(complete(&bare)[1], "--skip-h2d=\0");
        assert_eq!(complete(&bare)[3], "--skip-d2h=\0");
        let named = ["plan", "m.pte", "--skip-h2d", "decode", "--skip-d2h"];
        assert_eq!(complete(&named), named);
    }

    #[test]
    fn targets_name_a_delegate_and_a_device() {
        let target = parse_target("prefill:12=CUDA:1").unwrap();
        assert_eq!((target.method.as_str(), target.delegate), ("prefill", 12));
        assert_eq!(target.device, Device::cuda(1).unwrap());
        for text in [
            "",
            "forward=cuda",
            "forward:x=cuda",
            "forward:0",
            "forward:0=gpu",
            "f:-1=cpu",
        ] {
            assert!(parse_target(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_alignments_are_positive() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "nan", "inf", "1s"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert_eq!(parse_alignment("64").map(Alignment::get), Ok(64));
        for text in ["0", "8", "48", "8192", "-16", "x"] {
            assert!(parse_alignment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mappings_name_two_devices() {
        let (one, zero) = (Device::cuda(1).unwrap(), Device::cuda(0).unwrap());
        assert_eq!(parse_mapping("cuda:1=cuda:0"), Ok((one, zero)));
        assert_eq!(device_map(&[(one, zero)]).apply(one), zero);
        for text in ["cuda:1", "cuda:1=", "x=cuda", "cuda:1=cuda:0=cpu"] {
            assert!(parse_mapping(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tolerances_are_per_type_and_not_negative() {
        assert_eq!(parse_tolerance("float=1e-3"), Ok((ScalarType::Float, 1e-3)));
        for text in ["FLOAT", "FLOAT=", "FLOAT=-1", "FLOAT=nan", "F32=1"] {
            assert!(parse_tolerance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn byte_counts_have_units() {
        assert_eq!(parse_nbytes("4096"), Ok(4096));
        assert_eq!(parse_nbytes("64K"), Ok(65536));
        assert_eq!(parse_nbytes("2GiB"), Ok(2 << 30));
        for text in ["", "K", "1X", "-1", "99999999T"] {
            assert!(parse_nbytes(text).is_err(), "{text}");
        }
    }
}
