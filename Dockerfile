# The command `aneforge` in an image: docker build -t aneforge . && docker run --rm -v "$PWD:/work" aneforge check model.onnx
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY tools/native_build.py tools/
COPY src src
ENV ANEFORGE_REQUIRE_NATIVE=1
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[onnx]" && rm -r /wheels
WORKDIR /work
ENTRYPOINT ["aneforge"]
CMD ["--help"]
