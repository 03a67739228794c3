# Forage on the CPU: docker build -t forage . && docker run --rm -v "$PWD/runs:/work/runs" forage train ppo CartPole-v1
FROM python:3.13-slim

WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY forage forage
RUN pip install --no-cache-dir '.[video]'

WORKDIR /work
ENV JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR=/tmp/jax MPLBACKEND=agg
ENTRYPOINT ["forage"]
CMD ["--help"]
