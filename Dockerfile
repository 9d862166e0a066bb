# An image with the command line and its pictures, built without a network from wheels:
#   python -m pip wheel --wheel-dir wheels '.[report]'
#   docker build --network=none -t microveil .
#   docker run --rm --network=none -v "$PWD":/data microveil protect firms.csv -o released.csv
FROM python:3.13-slim
COPY wheels /wheels
RUN python -m pip install --no-index --find-links /wheels --no-cache-dir 'microveil[report]'
RUN useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["microveil"]
CMD ["--help"]
